"""The Prefect flow `backfill`: what a person starts from the UI for some documents or strategies, once.

It deletes nothing that a schedule would not: documents that are not named are not looked at, so they are neither missed nor counted as
vanished, and a collection that holds a part of a corpus never takes the place of one that holds the whole.
"""

# No postponed annotations here: see `flows.ingest`.
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.task_runners import ThreadPoolTaskRunner

from chunkers import STRATEGIES
from flows.flow_run import run_as_flow
from flows.form import Count, Dollars, StrategyName, offering_settings
from flows.page import run_name


@flow(
    name="backfill",
    flow_run_name=run_name,
    persist_result=False,
    task_runner=ThreadPoolTaskRunner(max_workers=len(STRATEGIES) + 1),  # type: ignore[arg-type]
)
@offering_settings
def backfill(
    source: str,
    documents: list[str] | None = None,
    strategies: list[StrategyName] | None = None,
    corpus: str | None = None,
    rebuild: bool = False,
    dry_run: bool = False,
    retry_parked: bool = False,
    max_failed: Count = 0,
    max_cost: Dollars | None = None,
    **settings: Any,
) -> State[None]:
    """Brings some documents of a corpus, or some of its collections, up to date.

    Args:
        source: A folder, a file or a glob of markdown and text files, on the machine that runs the flow.
        documents: Globs below the source's folder, such as guides/**/*.md, for a part of the corpus; all of it when empty.
        strategies: The chunking strategies to bring up to date; all six by default.
        corpus: The corpus's name; by default that of the root folder.
        rebuild: Build new collections beside the live ones and switch to them at the end; for the whole corpus only.
        dry_run: Report what would be done, and write nothing.
        retry_parked: Try documents again that failed so often that they were parked.
        max_failed: So many documents may fail in a strategy before it counts as failed.
        max_cost: US dollars that the run may cost; it stops before the first request that could pass them. Empty for any.
    """
    return run_as_flow(
        settings,
        source=source,
        documents=tuple(documents or ()),
        strategies=tuple(strategies or STRATEGIES),
        corpus=corpus,
        rebuild=rebuild,
        dry_run=dry_run,
        retry_parked=retry_parked,
        max_failed=max_failed,
        max_cost=max_cost,
    )
