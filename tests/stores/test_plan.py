from __future__ import annotations

from typing import Any

import pytest

from chunkers.ids import document_id
from stores import JournalRow, Plan, plan_documents
from stores.journal import DONE, FAILED, STARTED, WRITING


def row(uri: str, content_hash: str = "h", status: str = DONE) -> JournalRow:
    return JournalRow(document_id("docs", uri), uri, content_hash, status)


def plan(listing: dict[str, str | None], rows: list[JournalRow], **options: Any) -> Plan:
    given = {"complete": True, "partial": False, **options}
    return plan_documents(listing, {one.doc_id: one for one in rows}, corpus="docs", **given)


@pytest.mark.parametrize(
    ("listed", "stored", "kind"),
    [
        ("h", None, "new"),
        ("h", row("a"), "unchanged"),
        ("h2", row("a"), "changed"),
        ("h", row("a", status=FAILED), "unfinished"),
        ("h", row("a", status=WRITING), "unfinished"),
        ("h", row("a", status=STARTED), "unfinished"),
        ("h2", row("a", status=FAILED), "changed"),
        (None, row("a"), "unknown"),
        (None, None, "unknown"),
    ],
)
def test_one_document_by_its_hash_and_its_row(listed: str | None, stored: JournalRow | None, kind: str) -> None:
    made = plan({"a": listed}, [stored] if stored else [])
    told = {name for name in Plan.__dataclass_fields__ if getattr(made, name)}
    assert told == {kind}
    assert getattr(made, kind) == ["a"]


def rows(count: int) -> list[JournalRow]:
    return [row(f"{number:03}") for number in range(count)]


@pytest.mark.parametrize(
    ("stored", "listed", "options", "vanished", "withheld"),
    [
        (20, 19, {}, 1, 0),
        (20, 10, {}, 10, 0),  # ten are no more than ten
        (20, 9, {}, 0, 11),
        (200, 180, {}, 20, 0),  # a tenth is no more than a tenth
        (200, 179, {}, 0, 21),
        (20, 9, {"allow_deletes": 10}, 0, 11),
        (20, 9, {"allow_deletes": 11}, 11, 0),
        (3, 0, {}, 0, 3),  # an empty listing is never believed
        (3, 0, {"allow_deletes": 3}, 3, 0),
        (20, 19, {"complete": False}, 0, 1),
        (20, 19, {"complete": False, "allow_deletes": 1}, 1, 0),
        (20, 1, {"partial": True}, 0, 0),
        (0, 0, {}, 0, 0),
    ],
)
def test_guards_on_vanished_documents(
    stored: int, listed: int, options: dict[str, Any], vanished: int, withheld: int
) -> None:
    made = plan({one.uri: "h" for one in rows(listed)}, rows(stored), **options)
    assert (len(made.vanished), len(made.withheld)) == (vanished, withheld)


def test_an_unreadable_file_has_not_vanished() -> None:
    made = plan({"a": None, "b": "h"}, [row("a"), row("b")])
    assert made.vanished == []


def test_nothing_changed_means_no_work() -> None:
    made = plan({one.uri: "h" for one in rows(30)}, rows(30))
    assert (made.new, made.changed, made.unfinished, made.vanished) == ([], [], [], [])
