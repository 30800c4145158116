"""What a Qdrant server answers, for `tests.qdrant_server`: the REST requests that this project's clients send, done by an embedded
client in memory, so that filters and searches are real. With `strict`, a filter on a field that has no index of the right type is
refused, as Qdrant Cloud does.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from qdrant_client import models
from qdrant_client.local.qdrant_local import QdrantLocal

VERSION = "1.17.1"

_KEYWORD = {"keyword", "uuid"}
_INDEXES_BY_VALUE: dict[type, set[str]] = {str: _KEYWORD, bool: {"bool"}, int: {"integer"}}
_Selector: TypeAdapter[Any] = TypeAdapter(models.PointsSelector)
_Insert: TypeAdapter[Any] = TypeAdapter(models.PointInsertOperations)

Answer = tuple[int, Any]


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Answers:
    """A store in memory and what it answers to requests.

    Attributes:
        store: the collections; tests may look at it and change it by hand.
        strict: filters need indexes.
        indexes: types of payload indexes by collection and field.
    """

    def __init__(self, strict: bool) -> None:
        self.store = QdrantLocal(":memory:")
        self.strict = strict
        self.indexes: dict[str, dict[str, str]] = {}
        self.lock = threading.RLock()
        self._routes = [(method, re.compile(pattern), answer) for method, pattern, answer in self._table()]

    @property
    def aliases(self) -> dict[str, str]:
        """Collections by alias."""
        return {item.alias_name: item.collection_name for item in self.store.get_aliases().aliases}

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Status and body of the answer."""
        for wanted, pattern, answer in self._routes:
            match = pattern.fullmatch(path)
            if wanted != method or not match:
                continue
            try:
                with self.lock:
                    result = answer(body, **match.groupdict())
            except Refused as refused:
                return refused.status, _error(str(refused))
            except ValidationError as error:
                return 400, _error(f"Format error in JSON body: {error}")
            except KeyError as error:
                return 404, _error(f"Not found: No point with id {error.args[0]} found")
            except ValueError as error:
                return 400, _error(f"Wrong input: {error}")
            return 200, result if path == "/" else {"result": result, "status": "ok", "time": 0.0}
        return 404, None

    def _table(self) -> Iterator[tuple[str, str, Callable[..., Any]]]:
        one = "/collections/(?P<name>[^/]+)"
        yield "GET", "/", lambda body: {"title": "qdrant - vector search engine", "version": VERSION, "commit": "0"}
        yield "GET", "/collections", lambda body: _plain(self.store.get_collections())
        yield "GET", "/aliases", lambda body: _plain(self.store.get_aliases())
        yield "POST", "/collections/aliases", self._aliases
        yield "GET", f"{one}/exists", lambda body, name: {"exists": self.store.collection_exists(name)}
        yield "GET", one, self._info
        yield "PUT", one, self._create
        yield "PATCH", one, self._update
        yield "DELETE", one, self._drop
        yield "PUT", f"{one}/index", self._index
        yield "PUT", f"{one}/points", self._upsert
        yield "POST", f"{one}/points", self._retrieve
        yield "POST", f"{one}/points/delete", self._delete
        yield "POST", f"{one}/points/batch", self._batch
        yield "POST", f"{one}/points/payload", self._set_payload
        yield "PUT", f"{one}/points/payload", self._overwrite_payload
        yield "POST", f"{one}/points/payload/delete", self._delete_payload
        yield "POST", f"{one}/points/scroll", self._scroll
        yield "POST", f"{one}/points/count", self._count
        yield "POST", f"{one}/points/query", self._query

    def _resolved(self, name: str) -> str:
        """The collection of a name or alias."""
        name = self.aliases.get(name, name)
        if not self.store.collection_exists(name):
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        return name

    def _aliases(self, body: bytes) -> bool:
        actions = models.ChangeAliasesOperation.model_validate_json(body).actions
        for action in actions:
            if isinstance(action, models.CreateAliasOperation):
                self._resolved(action.create_alias.collection_name)
        return self.store.update_collection_aliases(actions)

    def _info(self, body: bytes, name: str) -> Any:
        name = self._resolved(name)
        told = _plain(self.store.get_collection(name))
        fields = {field: {"data_type": type_, "points": 0} for field, type_ in self.indexes[name].items()}
        return {**told, "payload_schema": fields}

    def _create(self, body: bytes, name: str) -> bool:
        if self.store.collection_exists(name):
            raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
        wanted = models.CreateCollection.model_validate_json(body)
        self.indexes[name] = {}
        return self.store.create_collection(
            name, wanted.vectors, sparse_vectors_config=wanted.sparse_vectors, metadata=wanted.metadata
        )

    def _update(self, body: bytes, name: str) -> bool:
        return self.store.update_collection(
            self._resolved(name), metadata=models.UpdateCollection.model_validate_json(body).metadata
        )

    def _drop(self, body: bytes, name: str) -> bool:
        self.indexes.pop(name, None)
        return self.store.delete_collection(name)

    def _index(self, body: bytes, name: str) -> Any:
        wanted = models.CreateFieldIndex.model_validate_json(body)
        assert isinstance(wanted.field_schema, models.PayloadSchemaType)
        self.indexes[self._resolved(name)][wanted.field_name] = wanted.field_schema.value
        return _done()

    def _upsert(self, body: bytes, name: str) -> Any:
        name = self._resolved(name)
        wanted = _Insert.validate_json(body)
        assert isinstance(wanted, models.PointsList)
        self._check(name, wanted.update_filter)
        self.store.upsert(name, wanted.points, update_filter=wanted.update_filter)
        return _done()

    def _delete(self, body: bytes, name: str) -> Any:
        name = self._resolved(name)
        selector = _Selector.validate_json(body)
        self._check(name, getattr(selector, "filter", None))
        self.store.delete(name, selector)
        return _done()

    def _batch(self, body: bytes, name: str) -> Any:
        name = self._resolved(name)
        operations = models.UpdateOperations.model_validate_json(body).operations
        self.store.batch_update_points(name, operations)
        return [_done() for _ in operations]

    def _set_payload(self, body: bytes, name: str) -> Any:
        wanted = models.SetPayload.model_validate_json(body)
        self.store.set_payload(self._resolved(name), wanted.payload, self._selected(name, wanted), key=wanted.key)
        return _done()

    def _overwrite_payload(self, body: bytes, name: str) -> Any:
        wanted = models.SetPayload.model_validate_json(body)
        self.store.overwrite_payload(self._resolved(name), wanted.payload, self._selected(name, wanted))
        return _done()

    def _delete_payload(self, body: bytes, name: str) -> Any:
        wanted = models.DeletePayload.model_validate_json(body)
        self.store.delete_payload(self._resolved(name), wanted.keys, self._selected(name, wanted))
        return _done()

    def _selected(self, name: str, wanted: models.SetPayload | models.DeletePayload) -> Any:
        self._check(self._resolved(name), wanted.filter)
        return wanted.points if wanted.filter is None else wanted.filter

    def _retrieve(self, body: bytes, name: str) -> Any:
        wanted = models.PointRequest.model_validate_json(body)
        payload = True if wanted.with_payload is None else wanted.with_payload
        found = self.store.retrieve(self._resolved(name), wanted.ids, payload, wanted.with_vector or False)
        return [_plain(record) for record in found]

    def _scroll(self, body: bytes, name: str) -> Any:
        name = self._resolved(name)
        wanted = models.ScrollRequest.model_validate_json(body)
        self._check(name, wanted.filter)
        points, offset = self.store.scroll(
            name,
            scroll_filter=wanted.filter,
            limit=wanted.limit or 10,
            offset=wanted.offset,
            with_payload=True if wanted.with_payload is None else wanted.with_payload,
            with_vectors=wanted.with_vector or False,
        )
        return {"points": [_plain(point) for point in points], "next_page_offset": offset}

    def _count(self, body: bytes, name: str) -> Any:
        name = self._resolved(name)
        wanted = models.CountRequest.model_validate_json(body)
        self._check(name, wanted.filter)
        return _plain(self.store.count(name, count_filter=wanted.filter))

    def _query(self, body: bytes, name: str) -> Any:
        name = self._resolved(name)
        wanted = models.QueryRequest.model_validate_json(body)
        parts = wanted.prefetch if isinstance(wanted.prefetch, list) else [wanted.prefetch]
        for part in (wanted, *filter(None, parts)):
            self._check(name, part.filter)
        query: Any = wanted.query
        found = self.store.query_points(
            name,
            query=models.NearestQuery(nearest=query) if isinstance(query, list | models.SparseVector) else query,
            using=wanted.using,
            prefetch=wanted.prefetch,
            query_filter=wanted.filter,
            limit=wanted.limit or 10,
            with_payload=wanted.with_payload or False,
            with_vectors=wanted.with_vector or False,
        )
        return _plain(found)

    def _check(self, collection: str, condition: models.Filter | None) -> None:
        """Refuses a filter on a field without an index, in strict mode."""
        if not self.strict or condition is None:
            return
        for field, types in _needed(condition):
            if self.indexes[collection].get(field) not in types:
                raise Refused(
                    400,
                    f'Bad request: Index required but not found for "{field}" of one of the following types: '
                    f"[{', '.join(sorted(types))}]. Help: Create an index for this key or use a different filter.",
                )


def _needed(condition: Any) -> Iterator[tuple[str, set[str]]]:
    """Fields of a filter, each with the types of index that serve it."""
    if isinstance(condition, models.Filter):
        for part in (condition.must, condition.should, condition.must_not):
            for one in part if isinstance(part, list) else [part] if part else []:
                yield from _needed(one)
    elif isinstance(condition, models.FieldCondition):
        if condition.range is not None:
            yield condition.key, {"integer", "float", "datetime"}
        elif isinstance(condition.match, models.MatchValue):
            yield condition.key, _INDEXES_BY_VALUE[type(condition.match.value)]
        else:
            yield condition.key, _KEYWORD
    elif not isinstance(condition, models.HasIdCondition | models.HasVectorCondition):
        raise AssertionError(f"the server does not know the condition {condition!r}")


def _plain(told: BaseModel) -> Any:
    return json.loads(told.model_dump_json())


def _done() -> dict[str, Any]:
    return {"operation_id": 0, "status": "completed"}


def _error(message: str) -> dict[str, Any]:
    return {"status": {"error": message}, "time": 0.0}


def too_large(size: int, limit: int) -> Answer:
    """What the server says to a request over its limit: 400, not 413."""
    return 400, _error(f"Payload error: JSON payload ({size} bytes) is larger than allowed (limit: {limit} bytes).")
