"""What a run spends: said beforehand, counted afterwards, and never more than it may."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chunkers import SettingError
from flows.settings import Settings
from stores import connect, list_collections
from tests.flows.conftest import ingest, quarry, told
from tests.openai_server import OpenAIServer, quota_spent, status

KNOWN = ["fixed_size", "recursive", "sentence"]


@pytest.fixture
def many(source: Path) -> Path:
    for number in range(60):
        (source / f"many-{number:02}.md").write_text(f"# Number {number}\n\nThis is document number {number}.\n" * 3)
    return source


@pytest.mark.parametrize("name", KNOWN)
def test_a_dry_run_tells_the_tokens_and_the_price_that_the_run_then_has(
    many: Path, endpoint: OpenAIServer, name: str
) -> None:
    dry = ingest(many, name, dry_run=True).strategies[name]
    real = ingest(many, name).strategies[name]
    assert (dry.requests, dry.embedding_tokens, dry.cost) == (real.requests, real.embedding_tokens, real.cost)
    assert real.cost == pytest.approx(real.embedding_tokens * 0.02 / 1e6)
    assert real.cost
    assert not real.uncounted


def test_a_dry_run_of_contexts_knows_the_prompts_and_estimates_the_answers(many: Path, endpoint: OpenAIServer) -> None:
    dry = ingest(many, "contextual_retrieval", dry_run=True).strategies["contextual_retrieval"]
    real = ingest(many, "contextual_retrieval").strategies["contextual_retrieval"]
    assert (dry.prompt_tokens, dry.requests) == (real.prompt_tokens, real.requests)
    assert dry.guessed
    assert dry.answer_tokens == 60 * dry.contexts
    assert real.answer_tokens > 0
    assert real.cost == pytest.approx(
        (real.embedding_tokens * 0.02 + real.prompt_tokens * 0.15 + real.answer_tokens * 0.60) / 1e6
    )


def test_a_dry_run_tells_the_tokens_that_the_cache_spares(many: Path, endpoint: OpenAIServer, tmp_path: Path) -> None:
    real = ingest(many, "recursive").strategies["recursive"]
    for path in (tmp_path / "home" / "qdrant").rglob("*"):
        if path.is_file():
            path.unlink()
    dry = ingest(many, "recursive", dry_run=True).strategies["recursive"]
    assert (dry.embedding_tokens, dry.requests, dry.cost) == (0, 0, 0.0)
    assert dry.spared_tokens == real.embedding_tokens


def test_the_report_holds_what_the_endpoint_counted(source: Path, endpoint: OpenAIServer) -> None:
    def counted(request: object) -> None:
        return None

    endpoint.always = counted
    own = ingest(source, "recursive").strategies["recursive"].as_json()
    assert own["requests"] == len(endpoint.requests)
    assert own["embedding_tokens"] > 0
    assert own["cost_usd"] > 0


def test_a_model_without_a_price_has_tokens_only(source: Path, endpoint: OpenAIServer) -> None:
    own = ingest(source, "recursive", overrides={"embedding_model": "local"}).strategies["recursive"]
    assert own.embedding_tokens > 0
    assert own.cost is None
    assert own.as_json()["cost_usd"] is None


def test_a_price_can_be_told(source: Path, endpoint: OpenAIServer) -> None:
    given = {"embedding_model": "local", "prices": json.dumps({"local": {"prompt": 1000}})}
    own = ingest(source, "recursive", overrides=given).strategies["recursive"]
    assert own.cost == pytest.approx(own.embedding_tokens / 1000)


@pytest.mark.parametrize(
    "prices", ["cheap", "[1]", '{"m": 3}', '{"m": {}}', '{"m": {"prompt": -1}}', '{"m": {"prompt": 1, "output": 2}}']
)
def test_prices_that_make_no_sense_are_refused_in_one_line(prices: str, source: Path) -> None:
    result = quarry("ingest", source, "--plain", "--set", f"prices={prices}")
    assert result.exit_code == 2
    assert "prices" in result.output
    assert "my-model" in result.output


def test_a_run_stops_before_the_first_request_that_could_pass_its_budget(many: Path, endpoint: OpenAIServer) -> None:
    dry = ingest(many, "contextual_retrieval", dry_run=True).strategies["contextual_retrieval"]
    assert dry.cost
    most = dry.cost / 3
    report = ingest(many, "contextual_retrieval", max_cost=most)
    own = report.strategies["contextual_retrieval"]
    assert report.exit_status == 1
    assert "--max-cost" in (own.error or "")
    assert own.cost is not None
    assert 0 < own.cost <= most
    assert own.failed == []
    assert own.not_attempted == 63 - own.documents
    assert any("documents not attempted" in one for one in report.failures())


def test_what_a_budget_left_undone_the_next_run_does_and_pays_for_nothing_twice(
    many: Path, endpoint: OpenAIServer
) -> None:
    whole = ingest(many, "contextual_retrieval", dry_run=True).strategies["contextual_retrieval"]
    ingest(many, "contextual_retrieval", max_cost=(whole.cost or 0) / 3)
    asked = [request.body["messages"] for request in endpoint.requests if "messages" in request.body]
    assert asked
    assert ingest(many, "contextual_retrieval", max_cost=1.0).exit_status == 0
    asked = [json.dumps(request.body["messages"]) for request in endpoint.requests if "messages" in request.body]
    assert len(asked) == len(set(asked)) == whole.contexts
    assert len(endpoint.inputs) == len(set(endpoint.inputs))


def test_a_budget_of_nothing_still_does_what_costs_nothing(source: Path) -> None:
    assert ingest(source, max_cost=0.0).exit_status == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"embedding_model": "local"}, "QUARRY_PRICES must tell the price of local"),
        ({"task_runner": "processes"}, "processes"),
    ],
)
def test_a_budget_that_could_not_be_kept_is_refused(
    source: Path, endpoint: OpenAIServer, given: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        ingest(source, "recursive", max_cost=1.0, overrides=given)


@pytest.mark.parametrize("most", ["-1", "nan", "inf", "much"])
def test_a_budget_that_is_no_amount_is_refused(source: Path, most: str) -> None:
    assert quarry("ingest", source, "--plain", "--max-cost", most).exit_code == 2


@pytest.mark.parametrize("fault", [quota_spent(), status(401), status(404, code="model_not_found")])
def test_what_stops_a_run_is_told_apart_from_documents_that_failed(
    many: Path, endpoint: OpenAIServer, fault: object
) -> None:
    endpoint.always = fault  # type: ignore[assignment]
    found = told("ingest", many, "--plain", "--strategy", "recursive", status=1)
    own = found["strategies"]["recursive"]
    assert own["failed"] == []
    assert own["not_attempted"] == 63
    assert own["error"]
    assert len(endpoint.requests) <= 8  # those under way


def test_a_shorter_vector_is_stored_and_found_with(source: Path, endpoint: OpenAIServer) -> None:
    assert ingest(source, "recursive", overrides={"embedding_dimensions": "256"}).exit_status == 0
    with connect() as client:
        assert {info.dimensions for info in list_collections(client)} == {256}
    # What the collection was made with holds, also where the setting is gone.
    endpoint.requests.clear()
    assert ingest(source, "recursive").exit_status == 0
    assert endpoint.requests == []
    assert told("search", "document", "--mode", "dense")["hits"]
    assert [request.body["dimensions"] for request in endpoint.requests] == [256]


def test_dimensions_of_a_built_in_model_cannot_be_chosen(source: Path) -> None:
    with pytest.raises(SettingError, match="embedding_dimensions"):
        ingest(source, "recursive", overrides={"embedding_dimensions": "128"})


def test_the_tables_say_what_is_spent(many: Path, endpoint: OpenAIServer) -> None:
    dry = quarry("ingest", many, "--plain", "--dry-run", "--strategy", "contextual_retrieval").output
    real = quarry("ingest", many, "--plain", "--strategy", "contextual_retrieval").output
    assert "what endpoints would be asked" in dry
    assert "what endpoints counted" in real
    assert "USD" in real


def test_without_an_endpoint_nothing_is_said_of_spending(source: Path) -> None:
    assert "endpoint" not in quarry("ingest", source, "--plain").output


def test_every_setting_of_an_endpoint_reaches_its_models() -> None:
    settings = Settings.load(
        {
            "embedding_max_inputs": "7",
            "embedding_parallel": "3",
            "llm_tokens_per_minute": "99",
            "request_timeout": "5",
            "request_attempts": "2",
            "retry_max_wait": "30",
        }
    )
    options = settings.model_options()
    assert options.limits == {"max_inputs": 7}
    assert options.embedding["parallel"] == 3
    assert options.context["tokens_per_minute"] == 99
    for role in (options.embedding, options.context):
        assert (role["timeout"], role["attempts"], role["longest_wait"]) == (5.0, 2, 30.0)
