"""Search for a RAG application: a question in, passages out, with their source and, where the strategy has them, their parents.

The query is embedded with the model that the collection's metadata names. Chunks of one parent are one hit, the best of them: more is
fetched than asked for, grouped here, and all parents come in one request. It needs neither Prefect nor the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any

from qdrant_client import QdrantClient, models

from chunkers import SettingError
from chunkers.models import Embedder, Endpoint, endpoint_from_environment, open_embedder
from stores.errors import StoreError
from stores.inventory import StoredCollection, alias_targets, stored_collection
from stores.names import alias_name, parse_alias
from stores.transport import send

# Payload fields at top level; any other name in a filter means `metadata.` and that name.
_TOP = frozenset({"kind", "doc_id", "parent_id", "text", "context", "embedding_hash"})
# Hits fetched for each one wanted, so that enough parents are left after grouping; doubled until they are.
_OVERFETCH = 4

Filters = Mapping[str, str | int | bool | Sequence[str | int | bool]]


@dataclass(frozen=True, slots=True)
class ParentText:
    """The parent of a hit."""

    text: str
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage.

    Attributes:
        score: cosine with the query.
        text: of the chunk.
        source: uri of its document.
        start_char, end_char: where in the document's text, in code points.
        headings: the path that it stands under.
        context: what was put before it when it was embedded, or None.
        parent: the larger passage around it, or None.
        metadata: all of the chunk's metadata.
    """

    score: float
    text: str
    source: str
    start_char: int
    end_char: int
    headings: list[str]
    context: str | None
    parent: ParentText | None
    metadata: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The fields that `search --json` prints."""
        told = asdict(self)
        del told["metadata"]
        return told


class Retriever:
    """Searches the collections of one corpus.

    Args:
        client: of the store; see `stores.connect`.
        corpus: the corpus's name.
        endpoint: of collections whose model needs one; from OPENAI_API_KEY and OPENAI_BASE_URL by default.
        embedder: for the query, instead of the model that the metadata names.
    """

    def __init__(
        self, client: QdrantClient, corpus: str, *, endpoint: Endpoint | None = None, embedder: Embedder | None = None
    ) -> None:
        self._client = client
        self.corpus = corpus
        self._endpoint = endpoint
        self._embedder = embedder
        self._embedders: dict[str, Embedder] = {}

    def search(
        self, query: str, strategy: str, limit: int = 5, filters: Filters | None = None, expand: bool = True
    ) -> list[Hit]:
        """At most `limit` passages, best first, no two with the same parent.

        Args:
            query: what to look for.
            strategy: whose collection is searched.
            limit: passages at most.
            filters: a value, or several of which one must hold, by name: `source`, or any other name in a chunk's metadata.
            expand: fetch the parents.

        Raises:
            ValueError: the query is blank, the limit below 1, or a filter has no value or one that is no text, whole number or bool.
            StoreError: there is no such collection, or the store failed.
            SettingError, ModelError: the collection's model cannot be used.
        """
        if not query.strip():
            raise ValueError("the query is blank")
        if limit < 1:
            raise ValueError(f"limit: {limit} cannot be used; it must be at least 1")
        # The alias is resolved once, so that a rebuild that moves it meanwhile cannot mix two collections in one answer.
        found = self._live(strategy)
        vector = self._embedder_of(found).embed([query])[0].tolist()
        best = self._best_by_parent(found.name, vector, limit, _filter(filters))
        parents = self._parents(found.name, best) if expand else {}
        return [_hit(point, parents) for point in best]

    def _live(self, strategy: str) -> StoredCollection:
        aliases = alias_targets(self._client)
        target = aliases.get(alias_name(self.corpus, strategy))
        found = stored_collection(self._client, target) if target else None
        if found is None:
            raise StoreError(self._missing(strategy, aliases))
        return found

    def _embedder_of(self, found: StoredCollection) -> Embedder:
        recipe = found.recipe
        if self._embedder is not None:
            return self._embedder
        if recipe.embedding_model not in self._embedders:
            endpoint = self._endpoint or endpoint_from_environment()
            self._embedders[recipe.embedding_model] = open_embedder(recipe.embedding_model, endpoint)
        embedder = self._embedders[recipe.embedding_model]
        if embedder.dimensions != recipe.dimensions:
            raise SettingError(
                "embedding_model", embedder.name, f"one of {recipe.dimensions} dimensions, as the collection has"
            )
        return embedder

    def _missing(self, strategy: str, aliases: Iterable[str]) -> str:
        there = sorted(filter(None, map(parse_alias, aliases)))
        strategies = [name for corpus, name in there if corpus == self.corpus]
        corpora = sorted({corpus for corpus, _ in there})
        if strategies:
            return (
                f"corpus {self.corpus!r} has no collection for {strategy}, only for {', '.join(strategies)}; "
                f"`quarry ingest SOURCE --strategy {strategy}` makes it"
            )
        stored = f"stored are {', '.join(corpora)}" if corpora else "nothing is stored"
        return f"there is no corpus {self.corpus!r} ({stored}); `quarry ingest SOURCE --corpus {self.corpus}` makes it"

    def _best_by_parent(
        self, collection: str, vector: list[float], limit: int, condition: models.Filter
    ) -> list[models.ScoredPoint]:
        wanted = limit * _OVERFETCH
        while True:
            points = send(
                f"search {collection}",
                lambda wanted=wanted: (
                    self._client.query_points(  # type: ignore[misc]
                        collection, query=vector, query_filter=condition, limit=wanted, with_payload=True
                    ).points
                ),
            )
            best: dict[str, models.ScoredPoint] = {}
            for point in points:
                best.setdefault(str((point.payload or {}).get("parent_id") or point.id), point)
            if len(best) >= limit or len(points) < wanted:
                return list(best.values())[:limit]
            wanted *= 2

    def _parents(self, collection: str, points: Iterable[models.ScoredPoint]) -> dict[str, ParentText]:
        ids = [str(point.payload["parent_id"]) for point in points if point.payload and point.payload.get("parent_id")]
        if not ids:
            return {}
        records = send(
            f"read parents of {collection}", lambda: self._client.retrieve(collection, ids=ids, with_payload=True)
        )
        found = {}
        for record in records:
            payload = record.payload or {}
            place = payload.get("metadata") or {}
            found[str(record.id)] = ParentText(payload["text"], place["start_char"], place["end_char"])
        return found


def _filter(filters: Filters | None) -> models.Filter:
    """Chunks for which every condition holds."""
    conditions: list[Any] = [models.FieldCondition(key="kind", match=models.MatchValue(value="chunk"))]
    for name, value in (filters or {}).items():
        key = name if name in _TOP or name.startswith("metadata.") else f"metadata.{name}"
        values = [value] if isinstance(value, str | int) or not isinstance(value, Sequence | Set) else list(value)
        if not values:
            raise ValueError(f"filter {name}: it names no value")
        for one in values:
            if not isinstance(one, str | int):
                raise ValueError(f"filter {name}: {one!r} cannot be matched; it must be text, a whole number or a bool")
        # Not MatchAny, which takes neither bools nor values of several types.
        matches: list[Any] = [models.FieldCondition(key=key, match=models.MatchValue(value=one)) for one in values]
        conditions.append(matches[0] if len(matches) == 1 else models.Filter(should=matches))
    return models.Filter(must=conditions)


def _hit(point: models.ScoredPoint, parents: Mapping[str, ParentText]) -> Hit:
    payload = point.payload or {}
    metadata = payload.get("metadata") or {}
    return Hit(
        score=point.score,
        text=payload["text"],
        source=metadata["source"],
        start_char=metadata["start_char"],
        end_char=metadata["end_char"],
        headings=list(metadata["headings"]),
        context=payload.get("context"),
        parent=parents.get(str(payload.get("parent_id"))),
        metadata=metadata,
    )
