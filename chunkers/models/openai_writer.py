"""Contexts from a chat model of an OpenAI-compatible server.

One request per chunk, several at a time. An answer that is empty, refused or longer than was asked for is replaced by the
outline's context and marked as a fallback; a server that gives no answer at all is an error.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Any

import openai

from chunkers.errors import SettingError
from chunkers.models import prompt
from chunkers.models.base import Context, ContextRequest
from chunkers.models.endpoint import Endpoint
from chunkers.models.openai_client import ATTEMPTS, TIMEOUT, OpenAIClient, RefusedError
from chunkers.models.outline import OutlineWriter

PARALLEL = 8


class OpenAIContextWriter:
    """Writes contexts through `/chat/completions`. Safe to use from several threads.

    Args:
        model: the server's name for it.
        api_key: the key; None for a server that wants none.
        base_url: address up to and with `/v1`; None is OpenAI's own.
        parallel: requests under way at most, over all threads.
        timeout, attempts, cancelled: as `OpenAIClient`.

    Raises:
        SettingError: the address, the key or `parallel` cannot be used.
    """

    prompt_version = prompt.VERSION

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        parallel: int = PARALLEL,
        timeout: float = TIMEOUT,
        attempts: int = ATTEMPTS,
        cancelled: threading.Event | None = None,
    ) -> None:
        if parallel < 1:
            raise SettingError("parallel", parallel, "at least 1")
        endpoint = Endpoint(api_key, base_url)
        self._client = OpenAIClient(model, endpoint, timeout=timeout, attempts=attempts, cancelled=cancelled)
        self._parallel = parallel
        self._slots = threading.BoundedSemaphore(parallel)
        self._outline = OutlineWriter()

    @property
    def name(self) -> str:
        return self._client.model

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        """One context per request, in order.

        Raises:
            ModelError: the server could not be asked; requests that had not begun are not sent.
        """
        stop = threading.Event()
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="context") as pool:
            futures = [pool.submit(self._write_one, request, stop) for request in requests]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                # Also at Ctrl-C: leaving the pool waits for its threads, which must then neither sleep nor begin anything.
                stop.set()
                for future in futures:
                    future.cancel()
                raise
            return [future.result() for future in futures]

    def _write_one(self, request: ContextRequest, stop: threading.Event) -> Context:
        with self._slots:
            try:
                answer = self._client.ask(lambda client: self._send(client, request), stop=stop)
            except RefusedError:
                answer = ""
        text = prompt.clean(answer)
        if not text or len(text) > prompt.LONGEST_CONTEXT:
            (outline,) = self._outline.write([request])
            return replace(outline, fallback=True)
        return Context(text, self.name)

    def _send(self, client: openai.OpenAI, request: ContextRequest) -> str:
        """The model's answer; empty where it refused or ran into the bound."""
        completion = client.chat.completions.create(
            model=self.name,
            messages=[
                {"role": "system", "content": prompt.SYSTEM},
                {"role": "user", "content": prompt.user_prompt(request)},
            ],
            temperature=0,
            max_tokens=prompt.MAX_TOKENS,
        )
        return self._answer(completion)

    def _answer(self, completion: Any) -> str:
        # The library builds its objects without checking them, so nothing is certain to be there.
        try:
            choice = completion.choices[0]
            refused = choice.finish_reason in ("content_filter", "length") or getattr(choice.message, "refusal", None)
            content = choice.message.content
        except (AttributeError, IndexError, TypeError):
            raise self._client.error("the answer is no chat completion") from None
        return content if isinstance(content, str) and not refused else ""
