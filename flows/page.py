"""What a run shows in Prefect's UI: its name, and its counts as an artifact."""

from __future__ import annotations

import logging

from prefect.artifacts import create_table_artifact

from flows.report import Report

log = logging.getLogger(__name__)

_COLUMNS = ("documents", "unchanged", "chunks", "upserted", "deleted", "embedded", "cached", "seconds")


def publish(report: Report) -> None:
    """The table of a run as an artifact. The run's work is stored already, so a server that is gone does not undo it."""
    rows = []
    for name, own in report.strategies.items():
        told = own.as_json()
        row = {column: told[column] for column in _COLUMNS}
        rows.append({"strategy": name, **row, "failed": len(own.failed), "error": own.error or ""})
    try:
        create_table_artifact(rows, key=f"ingest-{report.corpus}".replace("_", "-"), description=report.summary())
    except Exception as error:
        log.warning("the run's table could not be sent to the Prefect server: %s", error)
