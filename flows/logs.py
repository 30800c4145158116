"""The log of a run: where its lines go, and what each says of itself.

Every record made inside a run has the fields `run`, `corpus` and `strategy`, which a formatter may show; Prefect's own JSON formatter
(`PREFECT_LOGGING_HANDLERS_CONSOLE_FORMATTER=json`) does. In a flow run, lines of our three packages from INFO up go to Prefect's API, and
so to the page of the run, wherever it runs, and wherever its tasks do. Messages name documents, strategies and counts; never a text, a key
or an address with a key. No line of a library's holds a key either: some log each address that they ask, with the password in it.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from chunkers.redaction import redacted

PACKAGES = ("chunkers", "stores", "flows")
FIELDS = ("run", "corpus", "strategy")

# Tasks that begin at once in several threads of a worker set it up once.
_setting_up = threading.Lock()
_told: ContextVar[Mapping[str, str] | None] = ContextVar("told", default=None)


@contextmanager
def about(**fields: str) -> Iterator[None]:
    """Records that are made inside have these fields, besides those that they have already."""
    token = _told.set({**(_told.get() or {}), **fields})
    try:
        yield
    finally:
        _told.reset(token)


def set_up_for_run() -> None:
    """Sends the log of our packages to the flow run's page, and keeps there what helps: in the process of the flow, and in each that does
    tasks of it. Once is enough, more often does no harm."""
    with _setting_up:
        _stamp_records()
        for name in PACKAGES:
            logger = logging.getLogger(name)
            if logger.level == logging.NOTSET or logger.level > logging.INFO:
                logger.setLevel(logging.INFO)
            _send_to_api(logger)
        for name in ("prefect.flow_runs", "prefect.engine"):
            logger = logging.getLogger(name)
            if _without_traceback not in logger.filters:
                logger.addFilter(_without_traceback)


def _stamp_records() -> None:
    """Gives every record of this process the fields of the run that it is made in, and takes secrets out of its message."""
    inner = logging.getLogRecordFactory()
    if getattr(inner, "stamps", False):
        return

    def stamped(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = inner(*args, **kwargs)
        told = _told.get() or {}
        for name in FIELDS:
            setattr(record, name, told.get(name, ""))
        _redact(record)
        return record

    stamped.stamps = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(stamped)


def _redact(record: logging.LogRecord) -> None:
    message = _message(record)
    if (hidden := redacted(message)) != message:
        record.msg, record.args = hidden, None
    if record.exc_info and record.exc_info[1]:
        text = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        if (hidden := redacted(text)) != text:
            # What formatters take instead of making it anew.
            record.exc_text = hidden


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return ""  # a library's mistake, which logging itself tells of


def _send_to_api(logger: logging.Logger) -> None:
    from prefect.logging.handlers import APILogHandler

    if not any(isinstance(handler, APILogHandler) for handler in logger.handlers):
        handler = APILogHandler()
        handler.addFilter(_in_a_run)
        logger.addHandler(handler)


def _in_a_run(record: logging.LogRecord) -> bool:
    """Only inside a run does the API know where a line belongs; elsewhere Prefect would warn of each."""
    from prefect.context import FlowRunContext, TaskRunContext

    return bool(FlowRunContext.get() or TaskRunContext.get())


def _without_traceback(record: logging.LogRecord) -> bool:
    """Leaves out what Prefect says of a run that ended as Failed or Cancelled: its state told why already, and a traceback of Prefect's
    own code helps nobody."""
    from prefect.exceptions import CancelledRun, FailedRun

    return not (record.exc_info and isinstance(record.exc_info[1], CancelledRun | FailedRun))
