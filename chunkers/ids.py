"""Every id of the project, made from what it names.

Ids are canonical UUIDv5 strings (lower case, hyphens), which Qdrant takes as point ids and which come out the same on every
machine and in every run. A document is named by its corpus and its uri; a chunk or a parent by its document, its text and the
how-manieth such text of the document it is. So an edit far away leaves a chunk's id alone, and equal texts keep apart.
"""

from __future__ import annotations

import hashlib
import uuid

# uuid5 of the DNS namespace and the project's name: fixed for ever, since every stored id hangs on it.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "chunk-quarry").bytes


def _named(*parts: str) -> str:
    # The length before each part keeps ("ab", "c") and ("a", "bc") apart. Surrogates may stand in a uri (an undecodable
    # file name), and hashing must not fail on them.
    name = "".join([f"{len(part)}:{part}" for part in parts])
    digest = hashlib.sha1(_NAMESPACE + name.encode("utf-8", "surrogatepass")).hexdigest()
    # What `uuid.uuid5` does, without its objects: version 5 in the 13th digit, the variant in the upper bits of the 17th.
    variant = "89ab"[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


def document_id(corpus: str, uri: str) -> str:
    """The id of the document `uri` (NFC, relative to the corpus's root) in `corpus`."""
    return _named("document", corpus, uri)


def chunk_id(document: str, text: str, occurrence: int) -> str:
    """The id of the `occurrence`-th (from 0) chunk with this text in the document with the id `document`."""
    return _named("chunk", document, text, str(occurrence))


def parent_id(document: str, text: str, occurrence: int) -> str:
    """The id of the `occurrence`-th (from 0) parent with this text in the document with the id `document`."""
    return _named("parent", document, text, str(occurrence))


def lease_id(alias: str) -> str:
    """The id of the point that says which run works on the collections of `alias`."""
    return _named("lease", alias)


def text_hash(text: str) -> str:
    """SHA-256 of a text, as hexadecimal digits: `embedding_hash`, cache keys and the `content_hash` of a raw string."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
