"""Secrets are taken out of texts, whatever their form, and addresses are shown without them."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chunkers import redaction
from chunkers.redaction import HIDDEN, in_words, keep_address, keep_secret, redacted, shown_address


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_kept", set())


@given(secret=st.text(st.characters(exclude_categories=()), min_size=4), before=st.text(), after=st.text())
def test_no_form_of_a_secret_survives(secret: str, before: str, after: str) -> None:
    assume(secret.strip() and secret not in HIDDEN)
    redaction._kept.clear()
    keep_secret(secret)
    for form in (secret, json.dumps(secret), repr(secret), f" {secret} "):
        text = redacted(f"{before} {form} {after}")
        if len(secret) >= 8:
            assert secret not in text.replace(HIDDEN, "\0")


@pytest.mark.parametrize(
    "form", [quote, lambda text: repr(text.encode()), lambda text: base64.b64encode(text.encode()).decode()]
)
def test_a_secret_is_found_in_an_address_in_bytes_and_in_a_header(form: object) -> None:
    secret = "pass word/ü1"
    keep_secret(secret)
    assert HIDDEN in redacted(f"shown: {form(secret) if form is not quote else quote(secret, safe='')}")  # type: ignore[operator]


def test_a_short_secret_is_hidden_only_where_it_is_a_word() -> None:
    keep_secret("x")
    keep_secret("ollama")
    assert (
        redacted("Bearer x: no such exit of ollamaserver, ollama!") == "Bearer ***: no such exit of ollamaserver, ***!"
    )


@pytest.mark.parametrize("nothing", [None, "", " "])
def test_nothing_is_no_secret(nothing: str | None) -> None:
    keep_secret(nothing)
    keep_address(nothing)
    assert redacted("a b") == "a b"


def test_the_longest_secret_is_hidden_first() -> None:
    keep_secret("password")
    keep_secret("password-and-more")
    assert redacted("a password-and-more") == "a ***"


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://host:6333", "http://host:6333"),
        ("https://host/v1/", "https://host/v1/"),
        ("http://user:secret-1@host:1/v1", "http://host:1/v1"),
        ("http://user:se@cret-1@host:1/v1", "http://host:1/v1"),
        ("http://user:se/cret-1@host/v1", "http://host/v1"),
        ("http://secret-1@host", "http://host"),
        ("user:secret-1@host", "host"),
        ("http://host/v1?api-key=secret-1#secret-1", "http://host/v1"),
        ("http://host:secret", "http://host:secret"),
        ("tcp://user:secret-1@host:8786", "tcp://host:8786"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret(address: str, shown: str) -> None:
    assert shown_address(address) == shown


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://user:secret-1@host", "user:secret-1"),
        ("http://user:secret-1@host", "the password secret-1 of"),
        ("http://user:secret%2F1@host", "secret/1"),
        ("http://user:secret%2F1@host", "secret%2F1"),
        ("http://user:secret-1@host", "Basic dXNlcjpzZWNyZXQtMQ=="),
        ("http://secret-token@host", "secret-token"),
        ("http://host?api-key=secret-1&version=2026", "api-key=secret-1"),
    ],
)
def test_what_is_secret_in_an_address_is_kept(address: str, said: str) -> None:
    keep_address(address)
    text = redacted(said)
    assert HIDDEN in text
    assert "secret" not in text
    assert "dXNl" not in text


def test_the_name_of_a_user_with_a_password_is_no_secret() -> None:
    keep_address("http://someone:secret-1@host")
    assert redacted("someone asked") == "someone asked"


def test_an_error_is_said_in_one_line_without_secrets() -> None:
    keep_secret("sk-0123456789")
    assert in_words(ValueError("wrong key\n  sk-0123456789")) == "wrong key ***"
    assert in_words(TimeoutError()) == "TimeoutError"
