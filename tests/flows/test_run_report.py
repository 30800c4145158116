"""What a run says of itself in Prefect's UI, as text. Nothing here starts Prefect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from markdown_it import MarkdownIt

from chunkers import STRATEGIES
from flows.report import Report, StrategyReport
from flows.request import Request
from flows.run_report import ROWS, Ran, artifact_key, command, dashboard, escape, markdown, run_name, table, tags

RAN = Ran(Request("/data/docs"), home="/data/.quarry/qdrant")


def made(**changes: Any) -> Report:
    """A report of two strategies, three documents each."""
    own = {
        name: StrategyReport(
            documents=3,
            unchanged=1,
            chunks=9,
            embedded=4,
            cached=2,
            deleted=1,
            seconds=1.234,
            collection=f"docs__{name}__1",
        )
        for name in ("recursive", "sentence")
    }
    report = Report("docs", "/data/docs", strategies=own)
    for name, value in changes.items():
        setattr(report, name, value)
    return report


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"source": "/data/docs"}, "ingest docs"),
        ({"source": "/data/docs/"}, "ingest docs"),
        ({"source": "/data/docs", "corpus": "wiki"}, "ingest wiki"),
        ({"source": "/data/docs", "strategies": list(STRATEGIES)}, "ingest docs"),
        ({"source": "d", "strategies": ["recursive", "sentence"]}, "ingest d: recursive, sentence"),
        ({"source": "d", "strategies": ["recursive", "sentence", "semantic"]}, "ingest d: 3 strategies"),
        ({"source": "d", "documents": ["a/**"], "rebuild": True, "dry_run": True}, "ingest d: a/**, rebuild, dry run"),
        ({"source": "d", "documents": ["a", "b"], "retry_parked": True}, "ingest d: 2 globs, retry parked"),
        ({"source": "/"}, "ingest nothing"),
        ({"source": "a\nb\u202ec"}, "ingest a b c"),
        ({}, "ingest nothing"),
    ],
)
def test_a_run_s_name_says_what_runs(parameters: dict[str, Any], name: str) -> None:
    assert run_name("ingest", parameters) == name


def test_a_run_s_name_is_bounded() -> None:
    assert len(run_name("backfill", {"source": "x" * 500, "documents": ["y" * 500]})) == 100


def test_tags_say_which_corpus_and_what_kind_of_run() -> None:
    assert tags("backfill", made(dry_run=True), Request("d", rebuild=True)) == [
        "corpus:docs",
        "backfill",
        "dry-run",
        "rebuild",
    ]


def test_two_corpora_never_share_an_artifact() -> None:
    keys = {artifact_key("table", replace(made(), corpus=corpus)) for corpus in ("a-b", "a_b", "ab", "a-b_c", "a_b-c")}
    assert len(keys) == 5
    assert all(set(key) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for key in keys)


def test_dry_runs_have_artifacts_of_their_own() -> None:
    assert artifact_key("table", made(dry_run=True)) == "dry-run-table-docs"


def test_the_table_has_a_row_of_counts_for_each_strategy() -> None:
    report = made(unreadable=[("u.md", "gone")])
    report.strategies["sentence"].failed = [("a.md", "odd")]
    first, second = table(report)
    assert first == {
        "strategy": "recursive",
        "documents": 3,
        "unchanged": 1,
        "chunks": 9,
        "embedded": 4,
        "cached": 2,
        "deleted": 1,
        "failed": 1,
        "seconds": 1.2,
        "error": "",
    }
    assert second["failed"] == 2


def test_a_good_run_offers_nothing_to_try_again() -> None:
    told = markdown(made(), RAN)
    assert "**All done:** 2 strategies, 3 documents" in told.replace("\\", "")
    assert "Try again" not in told


def test_a_failed_document_is_named_with_its_error_and_strategies_and_the_command_that_tries_it_again() -> None:
    report = made()
    report.strategies["sentence"].failed = [("guides/a.md", "no vector")]
    told = markdown(report, RAN)
    assert "- `guides/a.md`: no vector (sentence)" in told
    assert "quarry ingest /data/docs --corpus docs --strategy sentence\n" in told


def test_a_document_that_failed_everywhere_is_named_once() -> None:
    report = made()
    for own in report.strategies.values():
        own.failed = [("a.md", "odd")]
    assert markdown(report, RAN).count("`a.md`: odd") == 1
    assert "(every strategy)" in markdown(report, RAN)


def test_a_parked_document_is_named_with_the_command_that_tries_it_again() -> None:
    report = made()
    report.strategies["recursive"].parked = [("b.md", "too odd")]
    told = markdown(report, RAN)
    assert "- `b.md`: too odd (recursive)" in told
    assert "quarry ingest /data/docs --corpus docs --strategy recursive --retry-parked\n" in told


def test_a_withheld_deletion_is_told_with_the_command_that_lets_it_go() -> None:
    told = markdown(made(withheld=12), RAN)
    assert "12 deletions withheld" in told
    assert "--allow-deletes 12" in told


def test_a_stopped_strategy_is_named_with_its_reason_and_command() -> None:
    report = made()
    report.strategies["sentence"].error = "the disk is full"
    told = markdown(report, RAN)
    assert "- `sentence`: the disk is full" in told
    assert "--strategy sentence\n" in told


def test_a_command_repeats_rebuild_and_settings_and_is_quoted() -> None:
    ran = Ran(Request("/my docs/it's", rebuild=True), settings={"chunk_size": 256})
    words = command(made(), ran, list(STRATEGIES))
    assert words == "quarry ingest '/my docs/it'\"'\"'s' --corpus docs --rebuild --set chunk_size=256"


def test_a_dry_run_has_no_command_to_try_again() -> None:
    report = made(dry_run=True, withheld=3)
    assert "Try again" not in markdown(report, RAN)


ODD = [
    "a|b.md",
    "`tick`.md",
    "``` \n# heading",
    "<script>alert(1)</script>.md",
    "[x](javascript:alert(1))",
    "![x](http://example.com/x.png)",
    "*bold* _it_ ~~no~~",
    "line\nbreak\r\n- item",
    "\u202etxt.exe",
    "&lt;",
    "",
]


@pytest.mark.parametrize("odd", ODD)
def test_names_and_messages_are_shown_and_never_taken_for_markup(odd: str) -> None:
    report = made(skipped=[("x", odd)], unreadable=[(odd, odd)], notes=[(odd, odd)], error=odd)
    report.strategies["recursive"].failed = [(odd, odd)]
    report.strategies["recursive"].parked = [(odd, odd)]
    # The report's own links are to collections of a server, of which there is none here.
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown(report, RAN))
    for tag in ("<script", "<a ", "<img", "<em>", "<h3", "<del>", "<s>"):
        assert tag not in html
    assert html.count("<h1>") == 1
    assert html.count("<tr>") == 3


@pytest.mark.parametrize("odd", [one for one in ODD if one and not set(one) & set("\n\u202e")])
def test_what_is_escaped_reads_as_it_was(odd: str) -> None:
    import html

    shown = html.unescape(MarkdownIt("commonmark").renderInline(escape(odd)))
    assert shown == odd


def test_a_command_with_ticks_in_it_stays_inside_its_fence() -> None:
    report = made(error="odd")
    told = markdown(report, Ran(Request("/data/```\n# x")))
    tokens = MarkdownIt("commonmark").parse(told)
    (fence,) = [token for token in tokens if token.type == "fence"]
    assert fence.content.startswith("quarry ingest '/data/```\n# x'")


def test_the_report_of_a_run_in_which_everything_failed_is_bounded() -> None:
    rows = [(f"{number}-{'n' * 5000}.md", "*" * 9000) for number in range(3000)]
    report = made(skipped=rows, unreadable=rows, notes=rows)
    for own in report.strategies.values():
        own.failed, own.parked = rows, rows
    told = markdown(report, RAN)
    assert len(told.encode()) < 256_000
    assert f"and {3000 - ROWS:,} more" in told


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://localhost:6333", "http://localhost:6333/dashboard#/collections"),
        ("https://user:secret@qdrant.example/", "https://qdrant.example/dashboard#/collections"),
        ("https://host/prefix/?api_key=secret", "https://host/prefix/dashboard#/collections"),
        ("qdrant:6333", "http://qdrant:6333/dashboard#/collections"),
    ],
)
def test_links_to_collections_hold_no_secret(url: str, shown: str) -> None:
    assert dashboard(url) == shown
    told = markdown(made(), replace(RAN, qdrant_url=url))
    assert f"]({shown}/docs__recursive__1)" in told
    assert "secret" not in told


def test_an_embedded_store_is_named_by_its_folder() -> None:
    assert "Embedded, in `/data/.quarry/qdrant`: `docs__recursive__1`, `docs__sentence__1`" in markdown(made(), RAN)
