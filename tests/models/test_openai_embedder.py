"""Embeddings over real HTTP: what is sent, and which answers are believed."""

from __future__ import annotations

import logging
import math
import traceback

import numpy as np
import pytest

from chunkers.errors import ModelError, SettingError
from chunkers.models.base import Embedder
from chunkers.models.openai_client import Manners
from chunkers.models.openai_embedder import OpenAIEmbedder
from chunkers.models.requests import InputTooLongError, Limits
from chunkers.models.usage import Usage
from tests import openai_server as faults
from tests.models.conftest import SMALL, Clock
from tests.openai_server import Fault, OpenAIServer, vector

TEXTS = ["the first text", "a second one", "and the third", "no. 4"]


def expected(texts: list[str], dimensions: int = 64) -> np.ndarray:
    return np.array([vector(text, dimensions) for text in texts], dtype=np.float32)


def test_vectors_come_in_the_order_asked(embedder: OpenAIEmbedder) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected(TEXTS), atol=1e-6)


def test_it_plays_the_role(embedder: OpenAIEmbedder) -> None:
    assert isinstance(embedder, Embedder)


def test_no_texts_need_no_request(embedder: OpenAIEmbedder, openai_server: OpenAIServer) -> None:
    assert embedder.embed([]).shape == (0, 64)
    assert openai_server.requests == []


def test_the_request_asks_for_floats_and_names_no_dimensions(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer
) -> None:
    embedder.embed(["one"])
    assert openai_server.requests[0].body == {"input": ["one"], "model": SMALL, "encoding_format": "base64"}


def test_dimensions_are_sent_if_given(openai_server: OpenAIServer) -> None:
    shorter = OpenAIEmbedder(
        "text-embedding-3-small", api_key=openai_server.key, base_url=openai_server.url, dimensions=256
    )
    assert shorter.embed(["one"]).shape == (1, 256)
    assert openai_server.requests[0].body["dimensions"] == 256


@pytest.mark.parametrize(
    ("model", "dimensions"),
    [("text-embedding-3-small", 1536), ("text-embedding-3-large", 3072), ("text-embedding-ada-002", 1536)],
)
def test_the_dimensions_of_a_known_model_need_no_request(
    openai_server: OpenAIServer, model: str, dimensions: int
) -> None:
    assert OpenAIEmbedder(model, base_url=openai_server.url).dimensions == dimensions
    assert openai_server.requests == []


def test_the_dimensions_of_another_model_are_asked_for_once(openai_server: OpenAIServer) -> None:
    unknown = OpenAIEmbedder(SMALL, api_key=openai_server.key, base_url=openai_server.url)
    assert [unknown.dimensions, unknown.dimensions] == [64, 64]
    assert len(openai_server.requests) == 1


def test_shuffled_vectors_go_where_their_index_says(embedder: OpenAIEmbedder, openai_server: OpenAIServer) -> None:
    openai_server.faults.append(faults.shuffled_order())
    np.testing.assert_allclose(embedder.embed(TEXTS), expected(TEXTS), atol=1e-6)


def test_vectors_of_any_length_are_brought_to_unit_length(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer
) -> None:
    def stretch(answer: dict) -> None:
        for entry in answer["data"]:
            entry["embedding"] = [1000 * number for number in entry["embedding"]]

    openai_server.faults.append(faults.changed(stretch))
    np.testing.assert_allclose(embedder.embed(TEXTS), expected(TEXTS), atol=1e-6)


@pytest.mark.parametrize(
    ("fault", "problem"),
    [
        (faults.dropped_vector(1), "3 vectors for 4 texts"),
        (faults.changed(lambda answer: answer["data"].append(answer["data"][0])), "5 vectors for 4 texts"),
        (faults.repeated_index(), "indexes are not 0 to 3"),
        (faults.changed(lambda answer: answer["data"][3].update(index=7)), "indexes are not 0 to 3"),
        (faults.changed(lambda answer: answer["data"][1].update(index=True)), "indexes are not 0 to 3"),
        (faults.changed(lambda answer: answer["data"][1].pop("index")), "indexes are not 0 to 3"),
        (faults.number(math.nan), "not finite"),
        (faults.number(math.inf), "not finite"),
        (faults.number(None), "not finite"),
        (faults.number(1e300), "not finite"),
        (faults.changed(lambda answer: answer["data"][2].update(embedding=[0.0] * 64)), "zeros only"),
        (faults.changed(lambda answer: answer["data"][2]["embedding"].pop()), "different lengths"),
        (faults.changed(lambda answer: answer["data"][2].update(embedding="AAAA")), "different lengths"),
        (faults.changed(lambda answer: answer["data"][2].pop("embedding")), "different lengths"),
        (faults.changed(lambda answer: answer.update(data=None)), "no list of embeddings"),
        (faults.changed(lambda answer: answer.update(data=[1, 2, 3, 4])), "no list of embeddings"),
        (Fault(body=[]), "no list of embeddings"),
        (Fault(body=b"<html>a proxy's page</html>"), "no JSON"),
        (Fault(body=b"\xff\xfe"), "no JSON"),
        (Fault(body=b""), "no JSON"),
    ],
)
def test_an_answer_with_other_vectors_than_asked_fails(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer, fault: Fault, problem: str
) -> None:
    openai_server.faults.append(fault)
    with pytest.raises(ModelError, match=problem) as caught:
        embedder.embed(TEXTS)
    assert not caught.value.fatal


def test_other_dimensions_than_the_model_has_stop_the_run(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer
) -> None:
    openai_server.faults.append(faults.wrong_dimension())
    with pytest.raises(ModelError, match="63 dimensions instead of 64") as caught:
        embedder.embed(TEXTS)
    assert caught.value.fatal


def test_requests_are_packed_within_the_limits(openai_server: OpenAIServer) -> None:
    limits = Limits(max_inputs=3, max_input_tokens=100, max_request_tokens=100)
    packing = OpenAIEmbedder(SMALL, api_key=openai_server.key, base_url=openai_server.url, limits=limits)
    texts = [f"text {number}" for number in range(8)]
    np.testing.assert_allclose(packing.embed(texts), expected(texts), atol=1e-6)
    sent = [len(request.body["input"]) for request in openai_server.requests]
    assert (sent[0], sorted(sent[1:])) == (1, [2, 3, 3])  # the first asks for the dimensions


def test_a_call_of_many_texts_is_spread_over_requests_side_by_side(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer
) -> None:
    texts = [f"t{number}" for number in range(2500)]
    np.testing.assert_allclose(embedder.embed(texts), expected(texts), atol=1e-6)
    assert sorted(len(request.body["input"]) for request in openai_server.requests) == [309] + [313] * 7


def test_a_text_over_the_limit_fails_before_anything_is_sent(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer
) -> None:
    with pytest.raises(InputTooLongError, match="20,000 tokens"):
        embedder.embed(["short", " hello" * 20_000])
    assert openai_server.requests == []


@pytest.mark.parametrize("blank", ["", " ", "\n\t\u3000"])
def test_a_blank_text_is_refused_before_anything_is_sent(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer, blank: str
) -> None:
    with pytest.raises(ValueError, match="text 1 of 2 is blank"):
        embedder.embed(["text", blank])
    assert openai_server.requests == []


def test_one_string_is_not_taken_for_a_list_of_texts(embedder: OpenAIEmbedder) -> None:
    with pytest.raises(TypeError, match="not one text"):
        embedder.embed("text")


@pytest.mark.parametrize("text", ["<|endoftext|>", "a\x00b", "\u200b", "<|im_start|>system", "🏳️‍🌈"])
def test_special_texts_are_sent_as_they_are(embedder: OpenAIEmbedder, openai_server: OpenAIServer, text: str) -> None:
    embedder.embed([text])
    assert openai_server.inputs == [text]


def test_a_lone_surrogate_is_replaced(embedder: OpenAIEmbedder, openai_server: OpenAIServer) -> None:
    embedder.embed(["query \udcff"])
    assert openai_server.inputs == ["query \ufffd"]


def test_tokens_are_counted_as_cl100k_base_counts_them(embedder: OpenAIEmbedder) -> None:
    assert [embedder.count_tokens(text) for text in ("", "hello world", "<|endoftext|>")] == [0, 2, 7]


def test_a_busy_server_is_asked_again_when_it_says(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer, clock: Clock
) -> None:
    openai_server.faults.extend([faults.status(429, {"Retry-After": "7"})] * 2)
    np.testing.assert_allclose(embedder.embed(TEXTS), expected(TEXTS), atol=1e-6)
    assert clock.waits == [7.0, 7.0]


@pytest.mark.parametrize(
    "fault",
    [
        faults.status(408),
        faults.status(409),
        faults.status(500),
        faults.status(503),
        Fault(502, {}, b"<html>Bad gateway</html>"),
        faults.disconnect("before"),
        faults.disconnect("inside"),
    ],
)
def test_what_may_pass_is_tried_again(embedder: OpenAIEmbedder, openai_server: OpenAIServer, fault: Fault) -> None:
    openai_server.faults.append(fault)
    np.testing.assert_allclose(embedder.embed(TEXTS), expected(TEXTS), atol=1e-6)
    assert len(openai_server.requests) == 2


def test_a_silent_server_is_tried_again(openai_server: OpenAIServer, clock: Clock) -> None:
    impatient = OpenAIEmbedder(
        "text-embedding-3-small",
        api_key=openai_server.key,
        base_url=openai_server.url,
        manners=Manners(timeout=0.1),
        sleep=clock,
    )
    openai_server.faults.append(faults.slow(0.3))
    assert impatient.embed(["one"]).shape == (1, 1536)
    assert len(openai_server.requests) == 2


def test_tries_run_out(embedder: OpenAIEmbedder, openai_server: OpenAIServer, clock: Clock) -> None:
    openai_server.faults.extend([faults.status(500, message="out of order")] * 5)
    with pytest.raises(ModelError, match="out of order") as caught:
        embedder.embed(TEXTS)
    assert (len(clock.waits), caught.value.fatal) == (4, False)
    # The sixth is a short text, which shows that the server is well.
    assert [len(request.body["input"]) for request in openai_server.requests] == [len(TEXTS)] * 5 + [1]


def test_a_server_that_fails_at_a_short_text_too_stops_the_run(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer
) -> None:
    openai_server.always = faults.status(500, message="out of order")
    with pytest.raises(ModelError, match="out of order; a short text fares no better") as caught:
        embedder.embed(TEXTS)
    assert (caught.value.fatal, caught.value.passing) == (True, True)


def test_vectors_that_are_wrong_for_any_text_stop_the_run(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer
) -> None:
    openai_server.always = faults.number(float("nan"))
    with pytest.raises(ModelError, match="a short text fares no better") as caught:
        embedder.embed(TEXTS)
    assert (caught.value.fatal, caught.value.passing) == (True, False)


@pytest.mark.parametrize(
    ("fault", "fatal"),
    [
        (faults.status(400), False),
        (faults.status(422), False),
        (faults.quota_spent(), True),
        (faults.status(401), True),
        (faults.status(403), True),
        (faults.status(404, code="model_not_found"), True),
        (faults.status(429, {"Retry-After": "86400"}), True),
    ],
)
def test_what_cannot_pass_is_not_tried_again(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer, fault: Fault, fatal: bool
) -> None:
    openai_server.faults.append(fault)
    with pytest.raises(ModelError) as caught:
        embedder.embed(TEXTS)
    assert len([one for one in openai_server.requests if one.body["input"] == TEXTS]) == 1
    assert caught.value.fatal is fatal


def test_a_server_that_is_not_there_stops_the_run(clock: Clock) -> None:
    with OpenAIServer() as gone:
        url = gone.url
    absent = OpenAIEmbedder("text-embedding-3-small", base_url=url, sleep=clock)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1.*refused") as caught:
        absent.embed(["one"])
    assert (caught.value.fatal, len(clock.waits)) == (True, 4)


def test_a_server_without_keys_needs_none() -> None:
    with OpenAIServer(key=None) as open_server:
        vectors = OpenAIEmbedder(SMALL, base_url=open_server.url).embed(["one"])
    assert vectors.shape == (1, 64)


def test_the_environment_does_not_choose_the_server(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    built = OpenAIEmbedder(SMALL, api_key=openai_server.key, base_url=openai_server.url)
    assert built.embed(["one"]).shape == (1, 64)


def test_a_key_is_in_no_error_no_traceback_and_no_log(
    openai_server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-secret-9876543210"
    caplog.set_level(logging.DEBUG)
    wrong = OpenAIEmbedder("text-embedding-3-small", api_key=key, base_url=openai_server.url)
    with pytest.raises(ModelError, match=r"Incorrect API key provided.*OPENAI_API_KEY") as caught:
        wrong.embed(["one"])
    written = "".join(traceback.format_exception(caught.value)) + repr(wrong) + repr(vars(wrong)) + caplog.text
    assert key not in written


def test_a_long_complaint_is_shortened(embedder: OpenAIEmbedder, openai_server: OpenAIServer) -> None:
    openai_server.faults.append(Fault(400, {}, b"<html>" + b"page " * 1000))
    with pytest.raises(ModelError) as caught:
        embedder.embed(["one"])
    assert len(str(caught.value)) < 400


def test_dimensions_below_one_are_refused() -> None:
    with pytest.raises(SettingError, match="dimensions"):
        OpenAIEmbedder("text-embedding-3-small", dimensions=0)


def test_vectors_in_base64_and_in_numbers_are_the_same(openai_server: OpenAIServer, embedder: OpenAIEmbedder) -> None:
    packed = embedder.embed(TEXTS)
    openai_server.packs = False
    np.testing.assert_array_equal(packed, embedder.embed(TEXTS))


def test_a_server_that_knows_no_base64_is_asked_for_numbers_from_then_on(
    openai_server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    openai_server.packs = False
    openai_server.faults.append(faults.status(400, message="encoding_format: base64 is not supported"))
    np.testing.assert_allclose(embedder.embed(TEXTS), expected(TEXTS), atol=1e-6)
    embedder.embed(["another"])
    assert [request.body["encoding_format"] for request in openai_server.requests] == ["base64", "float", "float"]


def test_a_request_that_is_too_large_is_halved_and_what_fits_is_kept_in_mind(
    openai_server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    openai_server.most_inputs = 16
    texts = [f"text {number}" for number in range(64)]
    np.testing.assert_allclose(embedder.embed(texts), expected(texts), atol=1e-6)
    openai_server.requests.clear()
    embedder.embed(texts)
    assert [len(request.body["input"]) for request in openai_server.requests] == [16] * 4


def test_no_request_is_larger_than_a_minute_s_tokens(openai_server: OpenAIServer, clock: Clock) -> None:
    texts = ["many words " * 100 for _ in range(60)]
    for per_minute, most in ((1000, 8191), (9000, 9000), (None, 280_000)):
        built = OpenAIEmbedder(
            "text-embedding-3-small",
            api_key=openai_server.key,
            base_url=openai_server.url,
            manners=Manners(tokens_per_minute=per_minute),
            sleep=clock,
        )
        counts = [built.count_tokens(text) for text in texts] * 30
        assert built.request_count(counts) >= sum(counts) / most
        assert built.request_count(counts) <= sum(counts) / most + 16


def test_an_endpoint_whose_limit_is_spent_for_the_day_ends_the_run(
    openai_server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    openai_server.headers = {
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "24h",
    }
    embedder.embed(["one"])
    with pytest.raises(ModelError, match="its limit leaves no requests for 8,640 s more") as caught:
        embedder.embed(["two"])
    assert caught.value.fatal
    assert len(openai_server.requests) == 1


def test_a_request_over_the_endpoint_s_tokens_a_minute_is_halved(
    openai_server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    def strict(request: faults.Request) -> Fault | None:
        asked = len(request.body["input"])
        return faults.status(429, message=f"Request too large: Limit 8, Requested {asked}") if asked > 8 else None

    openai_server.always = strict
    texts = [f"text {number}" for number in range(20)]
    np.testing.assert_allclose(embedder.embed(texts), expected(texts), atol=1e-6)


def test_one_text_that_is_too_large_by_itself_fails_and_the_others_are_handed_on(
    openai_server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    texts = ["one", "two", "three", "poison"]

    def poisoned(request: faults.Request) -> Fault | None:
        return faults.status(413) if "poison" in request.body["input"] else None

    openai_server.always = poisoned
    kept: list[int] = []
    with pytest.raises(ModelError, match="413"):
        embedder.embed_parts(texts, lambda rows, vectors, usage: kept.extend(rows))
    assert kept == [0, 1, 2]


def test_each_request_s_vectors_are_handed_on_also_when_another_fails(
    openai_server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    texts = [f"text {number}" for number in range(128)]
    openai_server.always = lambda request: faults.status(400) if "text 100" in request.body["input"] else None
    kept: list[range] = []
    with pytest.raises(ModelError, match="status 400"):
        embedder.embed_parts(texts, lambda rows, vectors, usage: kept.append(rows))
    assert kept == [range(64)]


def test_no_more_requests_are_under_way_than_the_manners_say(openai_server: OpenAIServer) -> None:
    built = OpenAIEmbedder(SMALL, api_key=openai_server.key, base_url=openai_server.url, manners=Manners(parallel=3))
    openai_server.always = faults.slow(0.02)
    texts = [f"text {number}" for number in range(64 * 8)]
    built.embed(texts)
    assert 2 <= openai_server.most_at_once <= 3


def test_what_a_request_used_is_what_the_endpoint_counted(
    openai_server: OpenAIServer, embedder: OpenAIEmbedder
) -> None:
    openai_server.faults.append(faults.changed(lambda answer: answer.update(usage={"prompt_tokens": 123})))
    told = []
    embedder.embed_parts(["one"], lambda rows, vectors, usage: told.append(usage))
    assert told == [Usage(1, 123)]


def test_an_unknown_model_is_asked_for_its_own_dimensions_before_it_is_asked_for_others(
    openai_server: OpenAIServer,
) -> None:
    own = OpenAIEmbedder(SMALL, api_key=openai_server.key, base_url=openai_server.url, dimensions=64)
    own.embed(["one"])
    assert all("dimensions" not in request.body for request in openai_server.requests)
    openai_server.requests.clear()
    shorter = OpenAIEmbedder(SMALL, api_key=openai_server.key, base_url=openai_server.url, dimensions=32)
    assert shorter.embed(["one"]).shape == (1, 32)
    assert [request.body.get("dimensions") for request in openai_server.requests] == [None, 32]


@pytest.mark.parametrize(
    ("model", "dimensions"), [("text-embedding-3-small", 1537), ("text-embedding-ada-002", 256), (SMALL, 0)]
)
def test_dimensions_that_a_model_does_not_have_are_refused(model: str, dimensions: int) -> None:
    with pytest.raises(SettingError, match="embedding_dimensions"):
        OpenAIEmbedder(model, dimensions=dimensions)


def test_a_wait_of_minutes_is_honoured_up_to_the_ceiling(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer, clock: Clock
) -> None:
    openai_server.faults.append(faults.status(429, {"Retry-After": "599"}))
    embedder.embed(["one"])
    openai_server.faults.append(faults.status(429, {"Retry-After": "601"}))
    with pytest.raises(ModelError) as caught:
        embedder.embed(["two"])
    assert (clock.waits, caught.value.fatal) == ([599.0], True)


def test_a_password_in_the_address_is_in_no_error(openai_server: OpenAIServer) -> None:
    url = openai_server.url.replace("//", "//me:hunter2@")
    openai_server.always = faults.status(400, message=f"cannot serve {url}")
    with pytest.raises(ModelError) as caught:
        OpenAIEmbedder("text-embedding-3-small", base_url=url).embed(["one"])
    assert "hunter2" not in str(caught.value)


def test_a_wait_over_the_ceiling_holds_up_nobody_else(embedder: OpenAIEmbedder, openai_server: OpenAIServer) -> None:
    openai_server.faults.append(faults.status(429, {"Retry-After": "86400"}))
    with pytest.raises(ModelError):
        embedder.embed(["one"])
    assert embedder.embed(["two"]).shape == (1, 64)


def test_a_text_that_a_complaint_repeats_is_not_taken_for_a_wrong_setting(
    embedder: OpenAIEmbedder, openai_server: OpenAIServer
) -> None:
    text = "How to set encoding_format"
    complaint = faults.status(400, message=f"cannot embed: {text}")
    openai_server.always = lambda request: complaint if text in request.body["input"] else None
    with pytest.raises(ModelError) as caught:
        embedder.embed([text])
    assert not caught.value.fatal
