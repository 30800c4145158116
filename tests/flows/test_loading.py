from __future__ import annotations

import codecs
import datetime
import hashlib
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chunkers import Document, ids
from flows import loading
from flows.decoding import decode
from flows.loading import LoadError, hash_file, load_document
from flows.sources import Entry, list_source

GERMAN = "Die Müller gehen über die Straße, und größer als äußerst schöne Häuser ist der Garten."
PIECES = st.lists(
    st.sampled_from(
        [
            "---",
            "title: Größe",
            "lang: de",
            "...",
            "# Heading",
            "text \ufffd",
            "",
            "\0",
            "- [x",
            "\ufeff",
            "```",
            "\ud800",
        ]
    )
)


def load(folder: Path, content: bytes | str, name: str = "a.md") -> Document:
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (entry,) = list_source(folder / name).entries
    return load_document(entry, "corpus")


def test_a_document_is_named_by_corpus_and_uri(tmp_path: Path) -> None:
    document = load(tmp_path, "Text.", "b c#1.md")
    assert (document.id, document.uri) == (ids.document_id("corpus", "b c#1.md"), "b c#1.md")


def test_the_hash_is_that_of_the_file_s_bytes(tmp_path: Path) -> None:
    content = codecs.BOM_UTF8 + b"---\na: 1\n---\nText\0"
    document = load(tmp_path, content)
    assert document.content_hash == hashlib.sha256(content).hexdigest() == hash_file(tmp_path / "a.md")


def test_a_large_file_is_hashed_in_pieces(tmp_path: Path) -> None:
    content = "Größe und Straße.\n".encode() * 300_000
    (tmp_path / "a.txt").write_bytes(content)
    assert hash_file(tmp_path / "a.txt") == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.md", "text/markdown"), ("a.MKD", "text/markdown"), ("a.txt", "text/plain"), ("a.text", "text/plain")],
)
def test_the_media_type_goes_by_the_extension(tmp_path: Path, name: str, kind: str) -> None:
    assert load(tmp_path, "Text.", name).media_type == kind


# Text


def test_nothing_of_an_ordinary_text_changes(tmp_path: Path) -> None:
    text = "# A\r\n\r\n\tb  \r\nc\u2028d\x0c\n\n\n"
    document = load(tmp_path, text)
    assert document.text == text
    assert document.metadata == {"encoding": "utf-8", "text_offset": 0}


@pytest.mark.parametrize(
    "data", [GERMAN.encode("utf-8-sig"), GERMAN.encode("utf-16"), GERMAN.encode("cp1252"), GERMAN.encode("utf-16-be")]
)
def test_one_text_in_several_encodings_is_one_text(tmp_path: Path, data: bytes) -> None:
    assert load(tmp_path, data).text == GERMAN


def test_the_encoding_is_reported(tmp_path: Path) -> None:
    assert load(tmp_path, GERMAN.encode("cp1252")).metadata["encoding"] == "cp1252"


def test_replaced_characters_are_counted(tmp_path: Path) -> None:
    document = load(tmp_path, b"---\ntitle: a\n---\none\0 two\0 three four\xed\xa0\x80 five")
    assert document.text == "one\ufffd two\ufffd three four\ufffd five"
    assert document.metadata["replaced_characters"] == 3


@pytest.mark.parametrize("content", [b"", codecs.BOM_UTF8, b"---\ntitle: T\n---\n", b"---\n---"])
def test_a_file_without_text_is_an_empty_document(tmp_path: Path, content: bytes) -> None:
    document = load(tmp_path, content)
    assert document.text == ""
    assert document.content_hash == hashlib.sha256(content).hexdigest()


# Front matter


def test_front_matter_goes_into_the_metadata(tmp_path: Path) -> None:
    document = load(tmp_path, "---\r\ntags: [a, b]\r\ndate: 2024-05-06\r\n---\r\nText.\r\n")
    assert document.text == "Text.\r\n"
    assert document.metadata == {
        "tags": ["a", "b"],
        "date": datetime.date(2024, 5, 6),
        "encoding": "utf-8",
        "text_offset": len("---\r\ntags: [a, b]\r\ndate: 2024-05-06\r\n---\r\n"),
    }


def test_the_offset_counts_characters_behind_the_byte_order_mark(tmp_path: Path) -> None:
    content = "---\ntitle: Größe 😀\n---\nText."
    document = load(tmp_path, content.encode("utf-16"))
    assert content[document.metadata["text_offset"] :] == document.text == "Text."


def test_plain_text_has_front_matter_too(tmp_path: Path) -> None:
    assert load(tmp_path, "---\nlang: de\n---\nText.", "a.txt").text == "Text."


def test_a_rule_at_the_top_is_no_front_matter(tmp_path: Path) -> None:
    text = "---\n\n# Title\n\nNote: not YAML.\n\n---\n\nMore.\n"
    document = load(tmp_path, text)
    assert (document.text, document.title) == (text, "Title")
    assert "front_matter_error" not in document.metadata


def test_bad_front_matter_stays_in_the_text(tmp_path: Path) -> None:
    text = "---\ntitle: [\n---\n# Heading\n"
    document = load(tmp_path, text)
    assert (document.text, document.title, document.metadata["text_offset"]) == (text, "Heading", 0)
    assert "bad YAML" in document.metadata["front_matter_error"]


def test_the_loader_s_own_metadata_win(tmp_path: Path) -> None:
    front = "---\nencoding: x\ntext_offset: x\nreplaced_characters: x\nfront_matter_error: x\n---\n"
    assert load(tmp_path, front).metadata == {"encoding": "utf-8", "text_offset": len(front)}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PIECES, st.sampled_from(["\n", "\r\n"]), st.sampled_from(["utf-8", "utf-16-le"]))
def test_a_document_is_a_suffix_of_its_file(tmp_path: Path, pieces: list[str], newline: str, encoding: str) -> None:
    data = newline.join(["\ufeffsome words", *pieces]).encode(encoding, "surrogatepass")
    without_words = data.replace("some words".encode(encoding), b"")
    for content in (data, without_words):
        with suppress(LoadError):
            document = load(tmp_path, content)
            assert decode(content).text[document.metadata["text_offset"] :] == document.text


# Title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: ' From YAML '\n---\n# Heading\n", "From YAML"),
        ("---\ntitle: ''\n---\n# Heading\n", "Heading"),
        ("---\ntitle: 2024\n---\n# Heading\n", "Heading"),
        ("Text first.\n\n## The *second* `level` [link](x) ##\n", "The second level link"),
        ("Setext\nheading\n=======\n", "Setext heading"),
        ("```\n# Comment\n```\n\n# Real\n", "Real"),
        ("    # code\n\ntext\n", "some.name"),
        ("#NoHeading\n", "some.name"),
        ("#\n\n# Second\n", "Second"),
        ("", "some.name"),
        ("word " * 2_000 + "\n\n# Late\n", "Late"),
        ("word " * 10_000 + "\n\n# Too late\n", "some.name"),
    ],
)
def test_the_title_is_the_front_matter_s_the_first_heading_or_the_name(tmp_path: Path, text: str, title: str) -> None:
    assert load(tmp_path, text, "some.name.md").title == title


def test_plain_text_has_no_headings(tmp_path: Path) -> None:
    assert load(tmp_path, "# Not a heading\n", "name.txt").title == "name"


# What cannot be loaded


def test_a_file_removed_since_it_was_listed_is_a_load_error(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("a")
    (entry,) = list_source(tmp_path).entries
    (tmp_path / "a.md").unlink()
    with pytest.raises(LoadError) as error:
        load_document(entry, "corpus")
    assert (error.value.document, error.value.reason) == ("a.md", "No such file or directory")
    with pytest.raises(OSError, match="No such file"):
        hash_file(entry.path)


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(LoadError, match="not a regular file"):
        load_document(Entry("a.md", tmp_path / "a.md", 1), "corpus")
    with pytest.raises(OSError, match="not a regular file"):
        hash_file(tmp_path / "a.md")


def test_binary_content_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"a\.md: binary content"):
        load(tmp_path, b"%PDF-1.7\n\0\xff\xfe\0\1\2\3")


def test_a_file_too_large_to_hold_is_a_load_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "LARGEST", 10)
    assert load(tmp_path, b"0123456789").text == "0123456789"
    with pytest.raises(LoadError, match="split it"):
        load(tmp_path, b"0123456789x")


# Language


@pytest.mark.parametrize(
    ("front", "language"),
    [
        ("lang: de-AT", "de"),
        ("language: FR", "fr"),
        ("lang: pt_BR", "pt"),
        ("lang: ''", "en"),
        ("lang: German", "en"),
        ("lang: [de]", "en"),
    ],
)
def test_the_language_is_the_front_matter_s(tmp_path: Path, front: str, language: str) -> None:
    assert load(tmp_path, f"---\n{front}\n---\nThe quick brown fox jumps over the lazy dog.\n").language == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (GERMAN, "de"),
        ("Le chat est assis sur le tapis et il dort depuis ce matin.", "fr"),
        ("これは日本語の文章です。文字コードの判定を試すために。", "ja"),
        ("这是一个中文文本，用来测试编码检测。北京是首都。", "zh"),
        ("The cat sat on the mat and slept well.", "en"),
        ("Zu kurz.", "en"),
        ("const x = await fetch(url).then(r => r.json()); def foo(x): return x + 1", "en"),
        ("pip install foo bar baz config yaml json toml html", "en"),
        ("| name | size |\n|---|---|\n| foo | 12 |\n| bar | 14 |\n", "en"),
        ("", "en"),
        ("12345 " * 100, "en"),
        ("```\nthe code is written in English and there is a lot of it here\n```\n\n" + GERMAN, "de"),
        ("Siehe `the_function_of_this_module` und https://example.org/the/english/page dazu.\n\n" + GERMAN, "de"),
    ],
)
def test_the_language_is_detected_in_prose_or_else_english(tmp_path: Path, text: str, language: str) -> None:
    assert load(tmp_path, text).language == language
