"""Search for a RAG application: a question in, passages out, with their source and, where the strategy has them, their parents.

The query is embedded with the model that the collection's metadata names, and its words are stemmed as those of the documents were.
Chunks of one parent are one hit, the best of them: more is fetched than asked for, grouped here, and all parents come in one request.
With a budget of tokens, as many of the best hits come as fit into it. It needs neither Prefect nor the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from itertools import count
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient, models

from chunkers import SettingError
from chunkers.encoding import count_tokens
from chunkers.models import Embedder, Endpoint, ModelOptions, endpoint_from_environment, open_embedder
from chunkers.models.bm25 import query_vector
from chunkers.tokens import count_joined
from stores.errors import StoreError
from stores.hits import Hit, ParentText
from stores.inventory import StoredCollection, alias_targets, stored_collection
from stores.names import alias_name, parse_alias
from stores.passages import pack
from stores.search_modes import DENSE, HYBRID, MODES, SPARSE_ONLY, Fusion, query_arguments
from stores.transport import send

# Payload fields at top level; any other name in a filter means `metadata.` and that name.
_TOP = frozenset({"kind", "doc_id", "parent_id", "text", "context", "embedding_hash"})
# Hits fetched for each one wanted, so that enough parents are left after grouping; doubled until they are.
_OVERFETCH = 4
LIMIT = 5
# The first version of the server with weights in its fusion; an older one would leave them out unsaid.
WEIGHTED_RANKS = (1, 17)
# How many chunks a budget fetches at first: as many as fit if each has no more tokens than this, and some.
_SMALL_CHUNK = 128
_FEWEST = 32
# It is spent when so much of it is. Until then four times as many are fetched; where what is found does not fit, three times at most.
_SPENT = 0.9
_FURTHER = 4
_ROUNDS = 3
# Parents read in one request: each may have some kilobytes.
_PARENTS = 500

Filters = Mapping[str, str | int | bool | Sequence[str | int | bool]]


class Retriever:
    """Searches the collections of one corpus.

    Args:
        client: of the store; see `stores.connect`, whose client knows whether the server is new enough for `hybrid`.
        corpus: the corpus's name.
        endpoint: of collections whose model needs one; from OPENAI_API_KEY and OPENAI_BASE_URL by default.
        model_folder: of collections whose model is one of FastEmbed's; from QUARRY_MODEL_FOLDER by default.
        embedder: for the query, instead of the model that the metadata names.
        fusion: how the mode `hybrid` fuses.
    """

    def __init__(
        self,
        client: QdrantClient,
        corpus: str,
        *,
        endpoint: Endpoint | None = None,
        model_folder: Path | None = None,
        embedder: Embedder | None = None,
        fusion: Fusion | None = None,
    ) -> None:
        self._client = client
        self.corpus = corpus
        self._fusion = fusion or Fusion()
        self._endpoint = endpoint
        self._model_folder = model_folder
        self._embedder = embedder
        self._embedders: dict[str, Embedder] = {}

    def search(
        self,
        query: str,
        strategy: str,
        limit: int | None = None,
        filters: Filters | None = None,
        expand: bool = True,
        *,
        mode: str = HYBRID,
        max_tokens: int | None = None,
    ) -> list[Hit]:
        """The best passages, best first, no two with the same parent unless that is too large for `max_tokens`.

        Args:
            query: what to look for.
            strategy: whose collection is searched.
            limit: passages at most; 5 by default, and with `max_tokens` any number.
            filters: a value, or several of which one must hold, by name: `source`, or any other name in a chunk's metadata.
            expand: fetch the parents.
            mode: `hybrid` (meaning and words), `dense` (meaning) or `sparse` (words).
            max_tokens: cl100k_base tokens that all texts together may have, where a hit with a parent counts as the parent's text.
                Hits of one document that overlap are merged into one, and what does not fit is left out.

        Raises:
            ValueError: the query is blank, the limit or the budget below 1, the mode unknown, or a filter has no value or one that is
                no text, whole number or bool.
            StoreError: there is no such collection, or it has no sparse vectors and the mode needs them, or the store failed.
            SettingError, ModelError: the collection's model cannot be used.
        """
        if not query.strip():
            raise ValueError("the query is blank")
        for name, number in (("limit", limit), ("max_tokens", max_tokens)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ValueError(f"{name}: {number!r} cannot be used; it must be a whole number, at least 1")
        if mode not in MODES:
            raise SettingError("mode", mode, f"one of {', '.join(MODES)}")
        # The alias is resolved once, so that a rebuild that moves it meanwhile cannot mix two collections in one answer.
        found = self._live(strategy)
        fetch = self._asking(found, query, mode, _filter(filters))
        if max_tokens is not None:
            return self._within(found.name, fetch, max_tokens, limit, expand)
        best = _best_by_parent(fetch, limit or LIMIT)
        parents = self._parents(found.name, best) if expand else {}
        return [Hit.from_point(point, parents) for point in best]

    def _asking(
        self, found: StoredCollection, query: str, mode: str, condition: models.Filter | None
    ) -> Callable[[int], list[models.ScoredPoint]]:
        """What gives the best chunks for the query, so many of them as it is asked for, fewer only where there are no more.

        Raises:
            StoreError, SettingError, ModelError: as `search`.
        """
        if mode != DENSE and not found.recipe.sparse:
            raise StoreError(
                f"{found.name} was made before there were sparse vectors, which the search mode {mode} needs; "
                f"`quarry ingest SOURCE --rebuild` makes them, and the mode {DENSE} does without"
            )
        version = getattr(self._client, "server_version", None)
        if mode == HYBRID and version and version < WEIGHTED_RANKS:
            raise StoreError(
                f"the search mode {mode} needs Qdrant 1.17, which fuses ranks by weight, and this server has "
                f"{'.'.join(map(str, version))}; the modes {DENSE} and {SPARSE_ONLY} do without"
            )
        dense = None if mode == SPARSE_ONLY else self._embedder_of(found).embed([query])[0].tolist()
        sparse = None if mode == DENSE else query_vector(query, found.languages or ("en",))

        def fetch(limit: int) -> list[models.ScoredPoint]:
            arguments = query_arguments(mode, dense, sparse, self._fusion, limit, condition)
            if arguments is None:
                return []
            return send(
                f"search {found.name}",
                lambda: self._client.query_points(found.name, **arguments, with_payload=True).points,
            )

        return fetch

    def _within(
        self,
        collection: str,
        fetch: Callable[[int], list[models.ScoredPoint]],
        max_tokens: int,
        limit: int | None,
        expand: bool,
    ) -> list[Hit]:
        """The best hits that fit into a budget."""
        wanted = max(_FEWEST, max_tokens // _SMALL_CHUNK)
        parents: dict[str, ParentText] = {}
        for number in count(1):
            points = fetch(wanted)
            chunks = [point for point in points if _is_chunk(point)]
            if expand:
                parents |= self._parents(collection, chunks, known=parents)
            packed = pack([Hit.from_point(point, parents) for point in chunks], max_tokens, Tokens(), limit)
            spent = packed.tokens >= _SPENT * max_tokens or len(packed.hits) == limit
            given_up = packed.full and packed.hits and number >= _ROUNDS
            if spent or given_up or len(points) < wanted:
                break
            wanted *= _FURTHER
        return packed.hits

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
            options = ModelOptions(dimensions=recipe.dimensions, folder=self._model_folder)
            self._embedders[recipe.embedding_model] = open_embedder(recipe.embedding_model, endpoint, options)
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

    def _parents(
        self, collection: str, points: Iterable[models.ScoredPoint], known: Collection[str] = ()
    ) -> dict[str, ParentText]:
        """The parents of chunks by id, but for those that are `known`."""
        named = (
            str(point.payload["parent_id"]) for point in points if point.payload and point.payload.get("parent_id")
        )
        ids = [id_ for id_ in dict.fromkeys(named) if id_ not in known]
        found = {}
        for begin in range(0, len(ids), _PARENTS):
            part = ids[begin : begin + _PARENTS]
            records = send(
                f"read parents of {collection}",
                lambda part=part: self._client.retrieve(collection, ids=part, with_payload=True),  # type: ignore[misc]
            )
            for record in records:
                payload = record.payload or {}
                place = payload.get("metadata") or {}
                found[str(record.id)] = ParentText(payload["text"], place["start_char"], place["end_char"])
        return found


class Tokens:
    """Counts tokens of cl100k_base."""

    count = staticmethod(count_tokens)
    joined = staticmethod(count_joined)


def _best_by_parent(fetch: Callable[[int], list[models.ScoredPoint]], limit: int) -> list[models.ScoredPoint]:
    """The best chunks, at most `limit`, of each parent the best one only."""
    wanted = limit * _OVERFETCH
    while True:
        points = fetch(wanted)
        best: dict[str, models.ScoredPoint] = {}
        for point in filter(_is_chunk, points):
            best.setdefault(str((point.payload or {}).get("parent_id") or point.id), point)
        if len(best) >= limit or len(points) < wanted:
            return list(best.values())[:limit]
        wanted *= 2


def _is_chunk(point: models.ScoredPoint) -> bool:
    """Whether a found point is a chunk: of ours no other has a vector, but somebody else may have put one in."""
    return (point.payload or {}).get("kind") == "chunk"


def _filter(filters: Filters | None) -> models.Filter | None:
    """Points for which every condition holds; None without one, since chunks alone have vectors and embedded a filter costs much."""
    conditions: list[Any] = []
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
    return models.Filter(must=conditions) if conditions else None
