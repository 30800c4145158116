"""The Prefect flow `ingest`: what a schedule runs to keep the collections of a corpus in step with it."""

# No postponed annotations here: Prefect reads the flow's parameters, in other modules and processes, too, where names of this module
# are not known.
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.task_runners import ThreadPoolTaskRunner

from chunkers import STRATEGIES
from flows.flow_run import run_as_flow
from flows.form import Count, Dollars, StrategyName, offering_settings
from flows.page import run_name


@flow(
    name="ingest",
    flow_run_name=run_name,
    persist_result=False,
    task_runner=ThreadPoolTaskRunner(max_workers=len(STRATEGIES) + 1),  # type: ignore[arg-type]
)
@offering_settings
def ingest(
    source: str,
    strategies: list[StrategyName] | None = None,
    corpus: str | None = None,
    rebuild: bool = False,
    dry_run: bool = False,
    allow_deletes: Count = 0,
    retry_parked: bool = False,
    max_failed: Count = 0,
    max_cost: Dollars | None = None,
    **settings: Any,
) -> State[None]:
    """Keeps one Qdrant collection per chunking strategy in step with a corpus.

    Args:
        source: A folder, a file or a glob of markdown and text files, on the machine that runs the flow.
        strategies: The chunking strategies to bring up to date; all six by default.
        corpus: The corpus's name; by default that of the root folder.
        rebuild: Build new collections beside the live ones and switch to them at the end. Needed when a setting has changed.
        dry_run: Report what would be done, and write nothing.
        allow_deletes: Delete up to this many vanished documents, although more than a tenth of the corpus is gone.
        retry_parked: Try documents again that failed so often that they were parked.
        max_failed: So many documents may fail in a strategy before it counts as failed.
        max_cost: US dollars that the run may cost; it stops before the first request that could pass them. Empty for any.
    """
    return run_as_flow(
        settings,
        source=source,
        strategies=tuple(strategies or STRATEGIES),
        corpus=corpus,
        rebuild=rebuild,
        dry_run=dry_run,
        allow_deletes=allow_deletes,
        retry_parked=retry_parked,
        max_failed=max_failed,
        max_cost=max_cost,
    )
