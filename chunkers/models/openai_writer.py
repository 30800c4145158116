"""Contexts from a chat model of an OpenAI-compatible server.

One request per chunk, several at a time. An answer that is empty, refused or longer than was asked for is replaced by the
outline's context and marked as a fallback; a server that gives no answer at all is an error. Servers differ in what they call the bound
of an answer, and some models take no temperature: what one complains about is asked for in the other way from then on.

Where a whole document is shown, one of its requests is answered before the others are sent, so that they find the document in the cache
of the server. A document that the model has no room for is told apart, and not sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from typing import Any

from chunkers import encoding
from chunkers.errors import ModelError
from chunkers.models import prompt
from chunkers.models.base import Context, ContextRequest
from chunkers.models.endpoint import Endpoint
from chunkers.models.health import HARMLESS, Health
from chunkers.models.openai_client import (
    Manners,
    OpenAIClient,
    RefusedError,
    TooLargeError,
    TooLongError,
    UnknownFieldError,
)
from chunkers.models.outline import OutlineWriter
from chunkers.models.parallel import Request
from chunkers.models.usage import Usage

# Told the place of a request among those of a call, its context, and what it used.
Keep = Callable[[int, Context, Usage], None]

# Tokens around a message and around a prompt, as OpenAI's chat models count them.
_AROUND_MESSAGE, _AROUND_PROMPT = 3, 3


class OpenAIContextWriter:
    """Writes contexts through `/chat/completions`. Safe to use from several threads.

    Args:
        model: the server's name for it.
        api_key: the key; None for a server that wants none.
        base_url: address up to and with `/v1`; None is OpenAI's own.
        manners, cancelled: as `OpenAIClient`.

    Raises:
        SettingError: the address, the key or a limit cannot be used.
    """

    prompt_version = prompt.VERSION
    document_prompt_version = prompt.DOCUMENT_VERSION

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        manners: Manners | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        self._client = OpenAIClient(model, Endpoint(api_key, base_url), manners=manners, cancelled=cancelled)
        self._outline = OutlineWriter()
        self._health = Health(lambda: self._ask(ContextRequest(HARMLESS, "", "", "", ()), threading.Event()))
        self._bounds: dict[str, Any] = {"max_tokens": prompt.MAX_TOKENS, "temperature": 0}

    @property
    def name(self) -> str:
        return self._client.model

    def prompt_tokens(self, request: ContextRequest) -> int:
        """cl100k_base tokens of the whole prompt, about what the model counts."""
        return _prompt_tokens(request)

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        """One context per request, in order.

        Raises:
            ModelError: the server could not be asked; requests that had not begun are not sent.
        """
        contexts: dict[int, Context] = {}

        def keep(place: int, context: Context, usage: Usage) -> None:
            contexts[place] = context

        self.write_parts(requests, keep)
        return [contexts[place] for place in range(len(requests))]

    def write_parts(self, requests: Sequence[ContextRequest], keep: Keep) -> None:
        """As `write`, but each context is handed on as soon as it is there, also when another request fails.

        Args:
            requests: chunks that want a context.
            keep: told a request's place, its context and what it used, by the thread that asked.

        Raises:
            As `write`.
        """

        def write(place: int, waiting: Sequence[int], stop: threading.Event) -> Iterable[Request]:
            context, usage = self._write_one(requests[place], stop)
            keep(place, context, usage)
            if not context.too_long:
                return [partial(write, other, ()) for other in waiting]
            for other in waiting:
                keep(other, context, Usage())
            return ()

        self._client.side_by_side([partial(write, place, waiting) for place, waiting in _first(requests)])

    def _write_one(self, request: ContextRequest, stop: threading.Event) -> tuple[Context, Usage]:
        """A context, or that the model has no room for the document, and what that used."""
        usage = Usage(1)
        try:
            answer, usage = self._ask(request, stop)
        except RefusedError:
            answer = ""
        except (TooLongError, TooLargeError):
            if request.document is None:
                raise
            return Context("", self.name, too_long=True), Usage()
        except ModelError as failure:
            raise (failure if stop.is_set() else self._health.judged(failure)) from None
        self._health.answered()
        text = prompt.clean(answer)
        if not text or len(text) > prompt.LONGEST_CONTEXT:
            (outline,) = self._outline.write([request])
            return replace(outline, fallback=True), usage
        return Context(text, self.name), usage

    def _ask(self, request: ContextRequest, stop: threading.Event) -> tuple[str, Usage]:
        """The model's answer, empty where it refused or ran into the bound, and what it used."""
        bounds = dict(self._bounds)
        user = prompt.user_prompt(request)
        messages = [{"role": "system", "content": prompt.SYSTEM}, {"role": "user", "content": user}]

        body = {"model": self.name, "messages": messages, **bounds}
        try:
            most = Usage(1, _prompt_tokens(request), 0, prompt.MAX_TOKENS)
            answer, usage = self._client.ask("/chat/completions", body, most, stop=stop)
        except UnknownFieldError as error:
            if error.field not in bounds or error.field == "max_completion_tokens":
                raise
            self._bounds = _without(self._bounds, error.field)
            return self._ask(request, stop)
        return self._answer(answer), usage

    def _answer(self, body: Any) -> str:
        try:
            choice = body["choices"][0]
            message = choice["message"]
            refused = choice.get("finish_reason") in ("content_filter", "length") or message.get("refusal")
            content = message.get("content")
        except (AttributeError, IndexError, KeyError, TypeError):
            raise self._client.error("the answer is no chat completion") from None
        return content if isinstance(content, str) and not refused else ""


def _first(requests: Sequence[ContextRequest]) -> list[tuple[int, list[int]]]:
    """The places of requests that can be sent at once, each with those that wait for it: the others with the same document."""
    found: list[tuple[int, list[int]]] = []
    of_document: dict[str, list[int]] = {}
    for place, request in enumerate(requests):
        if request.document in of_document:
            of_document[request.document].append(place)
            continue
        found.append((place, []))
        if request.document is not None:
            of_document[request.document] = found[-1][1]
    return found


@cache
def _system_tokens() -> int:
    return encoding.count_tokens(prompt.SYSTEM)


@lru_cache(maxsize=32)
def _document_tokens(document: str) -> int:
    """Counted once for all chunks of a document."""
    return encoding.count_tokens(document)


def _prompt_tokens(request: ContextRequest) -> int:
    shown = 0
    if request.document is not None:
        shown = _document_tokens(request.document)
        request = replace(request, document="")
    user = encoding.count_tokens(prompt.user_prompt(request))
    return _system_tokens() + shown + user + 2 * _AROUND_MESSAGE + _AROUND_PROMPT


def _without(bounds: dict[str, Any], field: str) -> dict[str, Any]:
    """The bounds of an answer without a field that the model does not take."""
    rest = {name: value for name, value in bounds.items() if name != field}
    return {**rest, "max_completion_tokens": prompt.MAX_TOKENS} if field == "max_tokens" else rest
