"""The data model: a document comes in, chunks and parents come out.

Every offset counts Unicode code points of `Document.text`, and a chunk's text is the slice between its two offsets. These are
plain records: strategies make them, stores write them, nothing in between changes them.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import Any

from chunkers import ids
from chunkers.analysis import Analysis
from chunkers.errors import SettingError
from chunkers.markdown import MARKDOWN

# Offsets are kept in 32 bits, and those of bytes may be four times those of characters.
LONGEST_TEXT = 2**29 - 1
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> tuple[str, int]:
    """`text` with each lone surrogate replaced by U+FFFD, and how many there were. Offsets stay."""
    try:
        text.encode()  # which refuses them, and is far faster than a search
        return text, 0
    except UnicodeEncodeError:
        pass
    return _LONE_SURROGATE.subn("\ufffd", text)


@dataclass(eq=False)
class Document:
    """A text with what is known about it.

    Attributes:
        id: canonical UUID of corpus and uri; made from the uri (or else the text) when left empty.
        uri: path relative to the corpus's root, NFC.
        text: the document as decoded text. Lone surrogates, which no encoding holds, are replaced by U+FFFD when the document
            is built and counted in `metadata["replaced_characters"]`.
        title: from front matter, the first heading or the file's name.
        language: ISO 639-1 code, a region is left out; sentence rules depend on it.
        media_type: `text/markdown` (block structure is read) or `text/plain` (blank lines part paragraphs).
        content_hash: SHA-256 of the file's bytes; of the text when left empty.
        metadata: front matter, and what the loader has to say.

    Raises:
        SettingError: `text` is no string, or longer than `LONGEST_TEXT` characters.
    """

    id: str = ""
    uri: str = ""
    text: str = ""
    title: str = ""
    language: str = "en"
    media_type: str = MARKDOWN
    content_hash: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise SettingError("text", self.text, "a string")
        if len(self.text) > LONGEST_TEXT:
            raise SettingError(
                "text", f"{len(self.text)} characters", f"at most {LONGEST_TEXT}; part it into documents"
            )
        # Rules are kept by the language alone: `de-CH` and `DE` are `de`.
        self.language = re.split("[-_]", str(self.language or "").strip())[0].lower() or "en"
        self.text, replaced = replace_surrogates(self.text)
        if replaced:
            already = self.metadata.get("replaced_characters", 0)
            self.metadata = {**self.metadata, "replaced_characters": already + replaced}
        self.content_hash = self.content_hash or ids.text_hash(self.text)
        self.id = self.id or ids.document_id("", self.uri or self.content_hash)
        self._lock = threading.Lock()
        self._analysis: Analysis | None = None

    @property
    def analysis(self) -> Analysis:
        """Tokens, blocks and sentences of the text: made once, shared by every strategy and thread."""
        with self._lock:
            if self._analysis is None:
                self._analysis = Analysis(self.text, self.media_type, self.language)
            return self._analysis

    def __getstate__(self) -> dict[str, Any]:
        # Locks do not pickle, and an analysis is cheaper to make again than to send.
        return {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_analysis")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
        self._analysis = None


def embedding_text(context: str | None, text: str) -> str:
    """What vectors are made of: context, a blank line, text; or the text alone."""
    return f"{context}\n\n{text}" if context else text


@dataclass(frozen=True, slots=True)
class Chunk:
    """A slice of a document that is embedded and found.

    Attributes:
        id: canonical UUID of document, text and occurrence.
        index: position in the document's list of chunks, from 0.
        text: `document.text[start_char:end_char]`.
        start_char, end_char: code point offsets.
        token_count: cl100k_base tokens of `text`, exactly.
        headings: the path of headings that the chunk stands under, outermost first.
        context: what is put before the text when it is embedded, or None.
        parent_id: the id of its `Parent`, or None.
        context_source: who wrote `context`: a model's name, `outline`, `table_header`, or None without a context.
        context_scope: where contexts are to be written from whole documents, what the model was shown for this one: `document`, or
            `window` where the document was too long for it.
        context_shortened: the embedding model has no room for all of the context beside the text; without a context, for none of it.
    """

    id: str
    index: int
    text: str
    start_char: int
    end_char: int
    token_count: int
    headings: tuple[str, ...] = ()
    context: str | None = None
    parent_id: str | None = None
    context_source: str | None = None
    context_scope: str | None = None
    context_shortened: bool = False

    @property
    def embedding_text(self) -> str:
        """What is embedded; see `embedding_text`."""
        return embedding_text(self.context, self.text)


@dataclass(frozen=True, slots=True)
class Parent:
    """A larger slice that children point at: it is stored without a vector and fetched when a child is found."""

    id: str
    text: str
    start_char: int
    end_char: int
    token_count: int
    headings: tuple[str, ...] = ()
