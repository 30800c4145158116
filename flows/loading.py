"""From a listed file to a `Document`.

A file's bytes are hashed and decoded from one reading, so a document's `content_hash` always belongs to its text. What is taken off
before the text starts is the byte-order mark, which is no part of the decoded text, and front matter, whose length in characters is
`metadata["text_offset"]`: `decoded[text_offset:] == text`. Nothing else changes but NUL and lone surrogates, which become U+FFFD.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chunkers import ModelError, ids
from chunkers.document import Document
from chunkers.markdown import MARKDOWN, PLAIN, Block, Kind, blocks
from flows.decoding import DecodeError, decode
from flows.file_names import media_type
from flows.front_matter import split_front_matter
from flows.language import declared_language, detect_language
from flows.walk import Entry

log = logging.getLogger(__name__)

LARGEST = 256 * 1024 * 1024

# The first heading and the language are mostly found in the first characters, and reading all of them costs time.
_FIRST = 5_000
_SECOND = 20_000


class LoadError(RuntimeError):
    """A document that cannot be loaded: `document` is its uri, `reason` why. Others are not touched by it."""

    def __init__(self, document: str, reason: str) -> None:
        super().__init__(f"{document}: {reason}")
        self.document = document
        self.reason = reason


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, as hexadecimal digits.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    with _open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_files(entries: Iterable[Entry]) -> tuple[dict[str, str | None], list[tuple[str, str]]]:
    """Hashes by uri, None for a file that cannot be read, and (uri, reason) for each of those."""
    hashes: dict[str, str | None] = {}
    unreadable = []
    for entry in entries:
        try:
            hashes[entry.uri] = hash_file(entry.path)
        except OSError as error:
            hashes[entry.uri] = None
            unreadable.append((entry.uri, error.strerror or str(error)))
    return hashes, unreadable


def load_document(entry: Entry, corpus: str) -> Document:
    """The document in a listed file.

    Its metadata hold the front matter and, winning over front matter of the same names, `encoding` (`utf-8`, `cp1252`, ...) and
    `text_offset`; where they apply also `replaced_characters` (a count) and `front_matter_error` (why front matter was left in the
    text).

    Raises:
        LoadError: the file cannot be read, is binary, or is larger than `LARGEST` bytes.
    """
    try:
        with _open(entry.path) as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise LoadError(entry.uri, f"larger than {LARGEST // 1024**2} MB; split it")
        decoded = decode(data)
    except OSError as error:
        raise LoadError(entry.uri, error.strerror or str(error)) from error
    except DecodeError as error:
        raise LoadError(entry.uri, str(error)) from error
    front, offset, front_error = split_front_matter(decoded.text)
    text = decoded.text[offset:]
    kind = media_type(entry.path.name) or PLAIN
    found = blocks(_head(text, _FIRST), kind)
    return Document(
        id=ids.document_id(corpus, entry.uri),
        uri=entry.uri,
        text=text,
        title=_title(front, text, kind, found, entry.path),
        language=declared_language(front) or detect_language(text, found),
        media_type=kind,
        content_hash=hashlib.sha256(data).hexdigest(),
        metadata=_metadata(front, decoded.encoding, offset, decoded.replaced, front_error),
    )


@dataclass
class Loaded:
    """A batch of documents that were read.

    Attributes:
        documents: in the order of the batch.
        unreadable: (uri, reason, counted) of each that could not be; `counted` unless it is the fault of a disk or a mount.
        notes: (uri, remark) for a person.
    """

    documents: list[Document] = field(default_factory=list)
    unreadable: list[tuple[str, str, bool]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def blank(self) -> list[str]:
        """Uris of documents that hold nothing to chunk."""
        return [document.uri for document in self.documents if not document.text.strip()]


def load_batch(entries: Iterable[Entry], corpus: str) -> Loaded:
    """The documents in listed files. One that cannot be read takes nobody with it.

    Raises:
        ModelError: the language detector cannot be used.
    """
    loaded = Loaded()
    for entry in entries:
        try:
            document = load_document(entry, corpus)
        except LoadError as error:
            loaded.unreadable.append((entry.uri, error.reason, not isinstance(error.__cause__, OSError)))
        except ModelError:
            raise
        except Exception as error:
            # A parser's own fault on an odd file is that file's failure, not the run's.
            log.exception("%s could not be loaded", entry.uri)
            loaded.unreadable.append((entry.uri, f"{type(error).__name__}: {error}", True))
        else:
            loaded.documents.append(document)
            loaded.notes += remarks(document)
    return loaded


def remarks(document: Document) -> list[tuple[str, str]]:
    """What a person should know of how a document was read, each with its uri."""
    metadata = document.metadata
    told = []
    if metadata.get("encoding", "utf-8") != "utf-8":
        told.append(f"read as {metadata['encoding']}")
    if metadata.get("replaced_characters"):
        told.append(f"{metadata['replaced_characters']} characters replaced by U+FFFD")
    if metadata.get("front_matter_error"):
        told.append(f"front matter left in the text: {metadata['front_matter_error']}")
    return [(document.uri, remark) for remark in told]


def _metadata(front: dict[str, Any], encoding: str, offset: int, replaced: int, error: str | None) -> dict[str, Any]:
    metadata = {**front, "encoding": encoding, "text_offset": offset}
    for name, value in (("replaced_characters", replaced), ("front_matter_error", error)):
        metadata.pop(name, None)
        if value:
            metadata[name] = value
    return metadata


def _title(front: dict[str, Any], text: str, kind: str, found: list[Block], path: Path) -> str:
    """The front matter's title, else the first heading, else the file's name without its extension."""
    declared = front.get("title")
    if isinstance(declared, str) and declared.strip():
        return declared.strip()
    if kind == MARKDOWN:
        heading = _heading(found) or (_heading(blocks(_head(text, _SECOND))) if len(text) > _FIRST else None)
        if heading:
            return heading
    return path.stem


def _heading(found: list[Block]) -> str | None:
    return next((block.title for block in found if block.kind is Kind.HEADING and block.title), None)


def _head(text: str, length: int) -> str:
    """The first `length` characters, up to the end of a line where there is one."""
    if len(text) <= length:
        return text
    end = max(text.rfind("\n", 0, length), text.rfind("\r", 0, length)) + 1
    return text[: end or length]


@contextmanager
def _open(path: Path) -> Iterator[io.BufferedReader]:
    """A regular file for reading. Not waiting matters: a pipe may have taken the file's place since it was listed."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(os.open(path, flags), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "not a regular file")
        yield file
