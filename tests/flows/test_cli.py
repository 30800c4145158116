"""The command as a user calls it: what goes to which stream, and the exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from chunkers import STRATEGIES
from chunkers.encoding import count_tokens
from flows.cli import app
from stores import connect
from tests.flows.conftest import ingest


def quarry(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def told(result: Result) -> dict[str, object]:
    """The one JSON object on standard output."""
    made = json.loads(result.stdout)
    assert isinstance(made, dict)
    return made


def test_ingest_prints_a_table_with_one_row_for_each_strategy(source: Path) -> None:
    result = quarry("ingest", source, "--plain")
    assert result.exit_code == 0, result.stderr
    rows = [line.split()[0] for line in result.stdout.splitlines() if line.split()]
    assert [row for row in rows if row in STRATEGIES] == list(STRATEGIES)
    assert "embeddings by wordllama, contexts by outline" in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_ingest_json_is_one_object_on_standard_output(source: Path) -> None:
    (source / "logo.png").write_bytes(b"\x89PNG")
    result = quarry("ingest", source, "--plain", "--json", "--strategy", "recursive", "--strategy", "sentence")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert list(report["strategies"]) == ["recursive", "sentence"]
    assert report["strategies"]["recursive"]["documents"] == 3
    assert [row["document"] for row in report["skipped"]] == ["logo.png"]
    assert report["withheld"] == 0


def test_dry_run_names_each_document_and_writes_nothing(source: Path, tmp_path: Path) -> None:
    result = quarry("ingest", source, "--dry-run")
    assert result.exit_code == 0
    assert "new: guide.md, log.txt, notes/tea.md: every strategy" in result.stdout
    assert "nothing was written" in result.stdout
    assert json.loads(quarry("status", "--json").stdout) == {"collections": []}


def test_a_failed_document_ends_with_status_1_and_is_named(source: Path) -> None:
    (source / "bad.md").write_bytes(bytes(range(256)) * 40)
    result = quarry("ingest", source, "--plain", "--strategy", "recursive")
    assert result.exit_code == 1
    assert "bad.md" in result.stdout
    assert "1 file could not be read" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ingest", "nowhere"], "does not exist"),
        (["ingest", "{source}", "--strategy", "magic"], "'magic' cannot be used; it must be one of fixed_size"),
        (["ingest", "{source}", "--set", "chunk_overlap=512"], "chunk_overlap"),
        (["ingest", "{source}", "--set", "chunk_size=0"], "chunk_size"),
        (["ingest", "{source}", "--set", "chunk_sise=5"], "chunk_size"),
        (["ingest", "{source}", "--set", "chunk_size"], "NAME=VALUE"),
        (["ingest", "{source}", "--set", "embedding_model=text-embedding-3-small"], "OPENAI_API_KEY"),
        (["ingest", "{source}", "--corpus", "Not Legal"], "not-legal"),
        (["search", " "], "blank"),
        (["search", "x", "--strategy", "magic"], "magic"),
        (["search", "x", "--filter", "source"], "NAME=VALUE"),
        (["search", "x", "--mode", "fuzzy"], "mode: 'fuzzy' cannot be used; it must be one of hybrid, dense, sparse"),
        (["search", "x", "--set", "fusion_k=0"], "fusion_k"),
        (["search", "x", "--set", "fusion_dense_weight=0", "--set", "fusion_sparse_weight=0"], "fusion_dense_weight"),
        (["chunk", "nowhere.md"], "does not exist"),
        (["chunk", "{source}"], "folder"),
        (["chunk", "{source}/guide.md", "--strategy", "magic"], "magic"),
    ],
)
def test_bad_usage_is_one_clear_line_and_status_2(source: Path, arguments: list[str], said: str) -> None:
    given = [argument.format(source=source) for argument in arguments]
    if given[0] == "ingest":
        given.append("--plain")
    result = quarry(*given)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.startswith("quarry: ")
    assert len(result.stderr.splitlines()) == 1


def test_an_error_is_json_too_when_json_is_asked_for() -> None:
    result = quarry("ingest", "nowhere", "--json")
    assert result.exit_code == 2
    assert "does not exist" in str(told(result)["error"])


def test_a_server_that_is_down_is_one_clear_line_and_status_1(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    for command in (["ingest", source, "--plain"], ["search", "x"], ["status"]):
        result = quarry(*command)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "http://127.0.0.1:9" in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_store_in_use_is_one_clear_line_and_status_1(source: Path, tmp_path: Path) -> None:
    ingest(source, "recursive")
    hold = (
        "import sys\nfrom stores import connect\nwith connect():\n    print('open', flush=True)\n    sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        result = quarry("search", "tea")
        other.communicate()
    assert result.exit_code == 1
    assert "in use by another process" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_changed_settings_end_with_status_2(source: Path) -> None:
    ingest(source, "recursive")
    result = quarry("ingest", source, "--plain", "--strategy", "recursive", "--set", "chunk_size=100")
    assert result.exit_code == 2
    assert "chunk_size: 512 stored, 100 asked" in result.stderr
    assert "--rebuild" in result.stderr


def test_collections_of_an_older_version_want_a_rebuild_and_no_settings(source: Path) -> None:
    ingest(source, "recursive")
    with connect() as client:
        recipe = (client.get_collection("docs__recursive").config.metadata or {})["recipe"]
        old = {name: value for name, value in recipe.items() if name != "sparse"} | {"schema_version": 2}
        client.update_collection("docs__recursive__1", metadata={"recipe": old})
    result = quarry("ingest", source, "--strategy", "recursive", "--plain")
    assert result.exit_code == 2
    assert "made by another version of quarry: schema_version: 2 stored, 3 asked" in result.stderr
    assert "--rebuild" in result.stderr
    assert "--set" not in result.stderr


def test_search_finds_the_passage_in_the_only_corpus(source: Path) -> None:
    ingest(source)
    found = json.loads(quarry("search", "which tea needs boiling water?", "-k", "1", "--json").stdout)
    (hit,) = found["hits"]
    assert hit["source"] == "notes/tea.md"
    assert set(hit) == {"score", "text", "source", "start_char", "end_char", "headings", "context", "parent"}
    assert hit["parent"] is None


def test_search_returns_child_and_parent(source: Path) -> None:
    ingest(source, "semantic_parent_child")
    result = quarry("search", "oil the bearings", "--strategy", "semantic_parent_child", "-k", "1", "--json")
    (hit,) = json.loads(result.stdout)["hits"]
    assert "Oil the bearings" in hit["text"]
    assert hit["text"] in hit["parent"]["text"]
    assert hit["parent"]["start_char"] <= hit["start_char"] < hit["end_char"] <= hit["parent"]["end_char"]


def test_search_looks_for_meaning_for_words_or_for_both(source: Path) -> None:
    ingest(source, "recursive")

    def found(*options: str) -> list[dict[str, object]]:
        return json.loads(quarry("search", "boiling", "--json", *options).stdout)["hits"]  # type: ignore[no-any-return]

    (only,) = found("--mode", "sparse")
    assert "boiling" in str(only["text"])
    assert len(found("--mode", "dense")) > 1
    assert found()[0]["text"] == only["text"]
    assert found() == found("--mode", "hybrid") != found("--mode", "dense")


def test_search_takes_mode_and_weights_from_the_settings(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(source, "recursive")
    both = quarry("search", "boiling", "--json").stdout
    weighed = quarry("search", "boiling", "--json", "--set", "fusion_sparse_weight=3").stdout
    assert json.loads(weighed)["hits"][0]["score"] > json.loads(both)["hits"][0]["score"]
    monkeypatch.setenv("QUARRY_SEARCH_MODE", "sparse")
    assert len(json.loads(quarry("search", "boiling", "--json").stdout)["hits"]) == 1
    assert quarry("search", "boiling", "--json", "--mode", "hybrid").stdout == both


def test_search_fills_a_budget_of_tokens(source: Path) -> None:
    ingest(source, "fixed_size", overrides={"chunk_size": "16", "chunk_overlap": "8"})
    hits = json.loads(quarry("search", "tea water", "--strategy", "fixed_size", "--max-tokens", "40", "--json").stdout)[
        "hits"
    ]
    assert 0 < sum(count_tokens(hit["text"]) for hit in hits) <= 40
    none = quarry("search", "tea water", "--strategy", "fixed_size", "--max-tokens", "1")
    assert none.stdout == "Nothing found that fits into 1 tokens.\n"
    # Neighbours that overlap are one passage.
    assert any(count_tokens(hit["text"]) > 16 for hit in hits)
    assert len({(hit["source"], hit["start_char"]) for hit in hits}) == len(hits)


def test_search_filters_on_source_and_front_matter(source: Path) -> None:
    ingest(source, "recursive")
    for condition in ("source=notes/tea.md", "tags=drink"):
        hits = json.loads(quarry("search", "pump", "--filter", condition, "--json").stdout)["hits"]
        assert [hit["source"] for hit in hits] == ["notes/tea.md"]


def test_search_filters_on_numbers_in_front_matter(source: Path) -> None:
    (source / "paged.md").write_text("---\npages: 3\n---\nThree pages on pumps.")
    ingest(source, "recursive")
    hits = json.loads(quarry("search", "pump", "--filter", "pages=3", "--json").stdout)["hits"]
    assert [hit["source"] for hit in hits] == ["paged.md"]


def test_a_prefect_server_that_does_not_answer_is_one_clear_line(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    result = quarry("ingest", source, "--json")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9/api does not answer" in str(told(result)["error"])
    assert "Traceback" not in result.stderr


def test_search_wants_a_choice_between_corpora(source: Path) -> None:
    ingest(source, "recursive")
    ingest(source / "notes", "recursive")
    result = quarry("search", "tea")
    assert result.exit_code != 0
    assert "docs, notes" in result.stderr
    assert quarry("search", "tea", "--corpus", "notes").exit_code == 0


def test_search_before_anything_is_stored_says_what_to_do() -> None:
    result = quarry("search", "tea")
    assert result.exit_code == 1
    assert "quarry ingest" in result.stderr


def test_status_tells_of_every_collection(source: Path) -> None:
    ingest(source)
    collections = json.loads(quarry("status", "--json").stdout)["collections"]
    assert sorted(row["strategy"] for row in collections) == sorted(STRATEGIES)
    row = next(row for row in collections if row["strategy"] == "contextual_retrieval")
    assert (row["corpus"], row["state"], row["documents"]) == ("docs", "live", 3)
    assert (row["embedding_model"], row["context_model"]) == ("wordllama", "outline")
    assert "contextual_retrieval" in quarry("status").stdout


def test_chunk_shows_exact_slices_and_stores_nothing(source: Path, tmp_path: Path) -> None:
    result = quarry("chunk", source / "guide.md", "--json")
    shown = json.loads(result.stdout)["strategies"]
    text = (source / "guide.md").read_text()
    assert list(shown) == list(STRATEGIES)
    names = {"index", "start_char", "end_char", "token_count", "headings", "context", "text", "parent_id"}
    for pieces in shown.values():
        assert pieces
        for piece in pieces:
            assert set(piece) == names
            assert text[piece["start_char"] : piece["end_char"]] == piece["text"]
    assert not (tmp_path / "home").exists()


def test_passages_are_printed_verbatim(source: Path) -> None:
    line = "A rather long line that goes on [bold]and on[/bold], far beyond the eighty columns that a terminal has, as it were."
    (source / "long.md").write_text(line)
    assert line in quarry("chunk", source / "long.md", "--strategy", "recursive").stdout


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=120, check=False)


def test_commands_that_need_no_flow_import_no_prefect(source: Path) -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from flows.cli import app; "
        "codes = [CliRunner().invoke(app, args).exit_code for args in (['search', 'x'], ['ingest', '.', '--dry-run'])]; "
        "print(codes, 'prefect' in sys.modules)"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=source)
    assert made.stdout == "[1, 0] False\n"


def test_plain_ends_quietly_and_without_noise_at_exit(source: Path) -> None:
    made = run("ingest", source, "--plain", "--strategy", "semantic", "--json")
    assert made.returncode == 0
    assert json.loads(made.stdout)["failures"] == []
    assert made.stderr.splitlines() == ["corpus docs: embeddings by wordllama"]


@pytest.mark.flow
def test_a_prefect_run_reports_what_a_plain_run_reports(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = json.loads(run("ingest", source, "--plain", "--json").stdout)
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "other"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    made = run("ingest", source, "--json")
    assert made.returncode == 0, made.stderr
    flow = json.loads(made.stdout)
    for report in (plain, flow):
        for own in report["strategies"].values():
            # Which of two strategies embeds a text that both need is a matter of who comes first.
            own["embedded"] += own.pop("cached")
            del own["seconds"]
    assert flow == plain
    assert "starting a private Prefect server" in made.stderr
    assert "Traceback" not in made.stderr


def test_json_is_whole_where_standard_output_is_not_utf_8(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source / "guide.md").write_text("Größe und 文 zählen.")
    ingest(source, "recursive")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    made = run("search", "Größe", "--filter", "source=guide.md", "--json")
    assert json.loads(made.stdout)["hits"][0]["text"] == "Größe und 文 zählen."
    assert run("search", "Größe", "--filter", "source=guide.md").returncode == 0


def test_a_source_without_a_document_makes_no_corpus(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = quarry("ingest", tmp_path / "empty", "--plain")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no markdown or text files" in result.stderr


def test_a_dry_run_leaves_no_folder_behind(source: Path, tmp_path: Path) -> None:
    assert quarry("ingest", source, "--dry-run").exit_code == 0
    assert not (tmp_path / "home").exists()
