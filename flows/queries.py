"""What the command line asks of a store or a file without running a flow: search, and the chunks of one file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from chunkers import STRATEGIES, Chunk, SettingError, build_chunker
from chunkers.models import open_context_writer, open_embedder
from flows.loading import load_document
from flows.models import endpoint_of
from flows.places import open_store
from flows.settings import Settings, SettingsError
from flows.sources import SourceError, list_source
from stores import Hit, Retriever, StoreError
from stores.inventory import alias_targets
from stores.names import parse_alias
from stores.search_modes import MODES


def find(
    settings: Settings,
    query: str,
    *,
    corpus: str | None,
    strategy: str | None,
    limit: int | None,
    filters: Sequence[str],
    mode: str | None = None,
    max_tokens: int | None = None,
    say: Callable[[str], None],
) -> list[Hit]:
    """The best passages for `query`. The only corpus is the default, and `recursive` (or the first strategy that is stored).

    Raises:
        SettingError, SettingsError: the query is blank, the strategy or the mode unknown, a filter is not NAME=VALUE.
        StoreError: there is no such collection, or the choice between several corpora is not made.
    """
    if not query.strip():
        raise SettingsError("the query is blank; write what to look for")
    if strategy is not None and strategy not in STRATEGIES:
        raise SettingError("strategy", strategy, f"one of {', '.join(STRATEGIES)}")
    mode = mode or settings.search_mode
    if mode not in MODES:
        raise SettingError("mode", mode, f"one of {', '.join(MODES)}")
    fusion = settings.fusion()
    wanted = parse_filters(filters)
    with open_store(settings, create=False) as client:
        live = sorted(filter(None, map(parse_alias, alias_targets(client))))
        corpora = sorted({name for name, _ in live})
        if corpus is None:
            if len(corpora) > 1:
                raise SettingsError(f"there are several corpora ({', '.join(corpora)}); choose one with --corpus")
            if not corpora:
                raise StoreError("nothing is stored yet; `quarry ingest FOLDER` makes the first collections")
            corpus = corpora[0]
        if strategy is None:
            stored = {name for name_of_corpus, name in live if name_of_corpus == corpus}
            strategy = next((name for name in ("recursive", *STRATEGIES) if name in stored), "recursive")
            say(f"corpus {corpus}, strategy {strategy}")
        retriever = Retriever(
            client, corpus, endpoint=endpoint_of(settings), model_folder=settings.model_folder, fusion=fusion
        )
        return retriever.search(query, strategy, limit=limit, filters=wanted or None, mode=mode, max_tokens=max_tokens)


def parse_filters(assignments: Sequence[str]) -> dict[str, list[str | int | bool]]:
    """Values by name from `NAME=VALUE`; several for one name are alternatives.

    Front matter has numbers and truth values, which Qdrant tells apart from text, so a value that reads as one matches either.

    Raises:
        SettingsError: one is not NAME=VALUE.
    """
    wanted: dict[str, list[str | int | bool]] = {}
    for assignment in assignments:
        name, _, value = (part.strip() for part in assignment.partition("="))
        if not name or not value:
            raise SettingsError(f"--filter {assignment}: it must be NAME=VALUE, such as source=guide.md")
        values = wanted.setdefault(name, [])
        values.append(value)
        if value in ("true", "false"):
            values.append(value == "true")
        elif re.fullmatch(r"-?[0-9]{1,18}", value):
            values.append(int(value))
    return wanted


def chunk_file(settings: Settings, file: Path, strategies: Sequence[str]) -> dict[str, list[Chunk]]:
    """The chunks of one file under each strategy, with the models that settings name, and nothing stored.

    Raises:
        SourceError, LoadError: the file cannot be read, or is of a type that is not read.
        SettingError: a strategy or a parameter cannot be used.
    """
    if file.is_dir():
        raise SourceError(f"{file}: it is a folder; `quarry chunk` shows one file")
    listing = list_source(str(file))
    if not listing.entries:
        reason = listing.skipped[0].reason if listing.skipped else "nothing to read"
        raise SourceError(f"{file}: {reason}")
    document = load_document(listing.entries[0], "chunk")
    endpoint = endpoint_of(settings)
    embedder = open_embedder(settings.embedding_model, endpoint, settings.model_options())
    writer = open_context_writer(settings.llm_model, endpoint)
    chunkers = [
        build_chunker(name, embedder=embedder, context_writer=writer, **_parameters(settings, name))
        for name in strategies
    ]
    return {chunker.strategy: chunker.chunk([document])[0].chunks for chunker in chunkers}


def _parameters(settings: Settings, strategy: str) -> dict[str, object]:
    if strategy not in STRATEGIES:
        raise SettingError("strategy", strategy, f"one of {', '.join(STRATEGIES)}")
    return settings.strategy_parameters(strategy)
