from __future__ import annotations

from flows.report import Report, StrategyReport


def report(**changes: object) -> Report:
    made = Report(
        "docs", strategies={"recursive": StrategyReport(documents=3), "sentence": StrategyReport(documents=3)}
    )
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def test_a_run_without_a_failure_ends_with_status_0() -> None:
    made = report(skipped=[("logo.png", "not read")], notes=[("a.md", "read as cp1252")])
    assert (made.exit_status, made.summary()) == (0, "2 strategies, 3 documents")


def test_a_stopped_strategy_is_named_with_its_reason() -> None:
    made = report()
    made.strategies["sentence"].error = "the store is gone"
    assert made.exit_status == 1
    assert made.summary() == "1 of 2 strategies failed: sentence (the store is gone)"


def test_failed_documents_are_counted_by_strategy() -> None:
    made = report()
    made.strategies["recursive"].failed = [("a.md", "no vector"), ("b.md", "no vector")]
    assert made.exit_status == 1
    assert made.summary() == "documents failed: 2 in recursive: a.md (no vector), b.md (no vector)"


def test_what_concerns_the_source_fails_the_run() -> None:
    assert (
        report(unreadable=[("a.md", "Permission denied")]).summary()
        == "1 file could not be read: a.md (Permission denied)"
    )
    assert report(complete=False).summary() == "the listing of the source is incomplete"
    assert report(withheld=12).summary().startswith("12 deletions withheld: ")
    assert report(withheld=12).summary().endswith("--allow-deletes 12 lets them go")
    assert report(interrupted=True).exit_status == 1


def test_json_has_the_fields_that_programs_rely_on() -> None:
    made = report(skipped=[("logo.png", "not read")], unreadable=[("b.md", "gone")], withheld=2)
    made.strategies["recursive"].failed = [("a.md", "no vector")]
    told = made.as_json()
    assert told["skipped"] == [{"document": "logo.png", "reason": "not read"}, {"document": "b.md", "reason": "gone"}]
    assert told["withheld"] == 2
    own = told["strategies"]["recursive"]
    assert own["failed"] == [{"document": "a.md", "error": "no vector"}]
    assert set(own) >= {
        "documents",
        "unchanged",
        "chunks",
        "upserted",
        "deleted",
        "embedded",
        "cached",
        "failed",
        "seconds",
    }
