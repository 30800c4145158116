from __future__ import annotations

from typing import Any

import pytest

from chunkers.ids import document_id
from stores import DocumentState, Plan, plan_documents
from stores.journal import DONE, FAILED, LEAVING, MOVING, STARTED, WRITING


def row(uri: str, content_hash: str = "h", status: str = DONE, attempts: int = 0) -> DocumentState:
    return DocumentState(document_id("docs", uri), uri, content_hash, status, attempts=attempts)


def plan(listing: dict[str, str | None], rows: list[DocumentState], **options: Any) -> Plan:
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
        ("h", row("a", status=FAILED, attempts=2), "unfinished"),
        ("h2", row("a", status=FAILED, attempts=3), "changed"),
        (None, row("a"), "unknown"),
        (None, None, "unknown"),
    ],
)
def test_one_document_by_its_hash_and_its_row(listed: str | None, stored: DocumentState | None, kind: str) -> None:
    made = plan({"a": listed}, [stored] if stored else [])
    told = {name for name in Plan.__dataclass_fields__ if getattr(made, name)}
    assert told == {kind}
    assert getattr(made, kind) == ["a"]


def rows(count: int) -> list[DocumentState]:
    return [row(f"{number:03}", f"h{number}") for number in range(count)]


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
    made = plan({one.uri: one.content_hash for one in rows(listed)}, rows(stored), **options)
    assert (len(made.vanished), len(made.withheld)) == (vanished, withheld)


def test_an_unreadable_file_has_not_vanished() -> None:
    made = plan({"a": None, "b": "h"}, [row("a"), row("b")])
    assert made.vanished == []


def test_nothing_changed_means_no_work() -> None:
    made = plan({one.uri: one.content_hash for one in rows(30)}, rows(30))
    assert (made.new, made.changed, made.unfinished, made.vanished) == ([], [], [], [])


@pytest.mark.parametrize("status", [FAILED, STARTED, WRITING])
def test_a_document_that_failed_three_times_is_parked_until_its_content_changes(status: str) -> None:
    stored = row("a", status=status, attempts=3)
    made = plan({"a": "h"}, [stored])
    assert (made.parked, made.wanted()) == ([stored], [])
    again = plan({"a": "h"}, [stored], retry_parked=True)
    assert (again.parked, again.unfinished) == ([], ["a"])
    assert plan({"a": "other"}, [stored]).changed == ["a"]


def moves(made: Plan) -> list[tuple[str, str]]:
    return [(move.state.uri, move.uri) for move in made.moved]


@pytest.mark.parametrize(
    ("listing", "stored", "moved", "vanished"),
    [
        ({"b": "h"}, [row("a")], [("a", "b")], []),
        ({"a": "h", "b": "h"}, [row("a")], [], []),  # a copy
        ({"a": "h", "c": "h"}, [row("a"), row("b")], [("b", "c")], []),  # of twins, the one that is gone
        ({"c": "h", "d": "h"}, [row("a"), row("b")], [("a", "c"), ("b", "d")], []),
        ({"c": "h"}, [row("a"), row("b")], [("a", "c")], ["b"]),
        ({"b": "h"}, [row("a"), row("b", "other")], [("a", "b")], []),  # over another
        ({"b": "h"}, [row("a"), row("b", status=WRITING)], [("a", "b")], []),  # a move that was cut off
        ({"b.txt": "h", "c.md": "h"}, [row("a.md")], [("a.md", "c.md")], []),  # the same kind of file first
        ({"b.txt": "h"}, [row("a.md")], [("a.md", "b.txt")], []),
        ({"b": "other"}, [row("a")], [], ["a"]),
        ({"b": "h"}, [row("a", status=FAILED)], [("a", "b")], []),  # nothing of it can be taken along
        ({"a": "h"}, [row("a"), row("b")], [], ["b"]),  # a twin
    ],
)
def test_a_document_whose_content_is_at_another_uri_has_moved(
    listing: dict[str, str | None], stored: list[DocumentState], moved: list[tuple[str, str]], vanished: list[str]
) -> None:
    made = plan(listing, stored)
    assert (moves(made), [state.uri for state in made.vanished]) == (moved, vanished)
    new = {uri for _, uri in moved}
    assert not new & {*made.new, *made.changed, *made.unfinished}
    assert new <= set(made.wanted())


def test_no_guard_counts_what_has_moved() -> None:
    stored = rows(40)
    made = plan({f"new/{one.uri}": one.content_hash for one in stored}, stored)
    assert (len(made.moved), made.vanished, made.withheld) == (40, [], [])


@pytest.mark.parametrize("options", [{"complete": False}, {"partial": True}])
def test_nothing_has_moved_where_it_is_not_known_to_be_gone(options: dict[str, Any]) -> None:
    made = plan({"b": "h"}, [row("a")], **options)
    assert (made.moved, made.new) == ([], ["b"])


def test_what_a_move_left_behind_goes_whatever_the_guards_say() -> None:
    left = [row(f"old-{one.uri}", one.content_hash, MOVING) for one in rows(20)]
    made = plan({one.uri: one.content_hash for one in rows(20)}, [*rows(20), *left])
    assert (len(made.vanished), made.withheld, made.moved) == (20, [], [])


def test_no_guard_counts_what_is_stored_under_another_uri_too() -> None:
    copies = [row(f"copy-of-{one.uri}", one.content_hash) for one in rows(20)]
    made = plan({one.uri: one.content_hash for one in rows(20)}, [*rows(20), *copies])
    assert (len(made.vanished), made.withheld) == (20, [])


@pytest.mark.parametrize("status", [DONE, MOVING, LEAVING, FAILED])
def test_the_old_place_of_a_moved_document_is_kept_while_the_new_one_is_parked(status: str) -> None:
    made = plan({"b": "h"}, [row("a", status=status, attempts=3), row("b", status=FAILED, attempts=3)])
    assert (made.vanished, made.withheld, made.moved) == ([], [], [])
