from __future__ import annotations

import codecs

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flows.decoding import DecodeError, decode

GERMAN = "Die Müller gehen über die Straße, größer als äußerst schöne Häuser."
FRENCH = "L’été dernier, j’ai mangé une crème brûlée à l’hôtel. Ça coûte 5 €, où nous étions."
POLISH = "Zażółć gęślą jaźń. Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw."
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy. Všichni lidé rodí se svobodní a sobě rovní."
RUSSIAN = "Привет, это обычный русский текст для проверки кодировки. Он состоит из нескольких предложений."
JAPANESE = "これは日本語の文章です。文字コードの判定を試すために書かれています。東京は日本の首都です。"
CHINESE = "这是一个中文文本，用来测试编码检测。北京是中国的首都，人口众多。"
TAIWANESE = "這是一個繁體中文文本，用來測試編碼檢測。台北是臺灣的首都，人口眾多。"
KOREAN = "이것은 한국어 텍스트입니다. 인코딩 감지를 테스트하기 위해 작성되었습니다."
TURKISH = "Türkçe öğrenmek için çok çalışıyorum, güneşli bir gün."
GREEK = "Ελληνικά κείμενα είναι ωραία και μεγάλα"

PRINTABLE = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn"), include_characters="\t\n\r"))


@given(PRINTABLE)
def test_utf8_comes_back_as_it_was(text: str) -> None:
    assume(not text.startswith("\ufeff"))
    decoded = decode(text.encode())
    assert (decoded.text, decoded.encoding, decoded.replaced) == (text, "utf-8", 0)


@given(PRINTABLE, st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]))
def test_a_byte_order_mark_decides_and_is_no_part_of_the_text(text: str, encoding: str) -> None:
    decoded = decode(("\ufeff" + text).encode(encoding))
    assert (decoded.text, decoded.encoding, decoded.replaced) == (text, encoding, 0)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "latin-1"),
        ("Grüße", "latin-1"),
        ("Café", "cp1252"),
        ("naïve façade résumé", "cp1252"),
        ("Smart “quotes” — 5 €", "cp1252"),
        ("# Titel\n\nEin Absatz über Größe.\n", "cp1252"),
        ("# Titel\r\n\r\nHäufig: Wie öffnet man die Tür?\r\n" * 50, "latin-1"),
        ("Plain words in English with one café only. " * 40, "cp1252"),
        (FRENCH, "cp1252"),
        ("El niño comió piñas en España. ¿Qué más?", "cp1252"),
        ("Å Ä Ö svenska är språket i Sverige", "cp1252"),
        (POLISH, "cp1250"),
        (POLISH, "iso8859-2"),
        (CZECH, "cp1250"),
        (TURKISH, "cp1254"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8-r"),
        ("Привет, мир", "cp1251"),
        (GREEK, "cp1253"),
        ("สวัสดีครับ นี่คือข้อความภาษาไทยสำหรับทดสอบ", "cp874"),
        (JAPANESE, "shift-jis"),
        (JAPANESE, "euc_jp"),
        (CHINESE, "gb18030"),
        (TAIWANESE, "big5"),
        (KOREAN, "euc_kr"),
        (JAPANESE * 400, "shift-jis"),
        ("# 标题\n\n" + CHINESE * 300, "gb18030"),
    ],
)
def test_text_in_an_old_encoding_holds_the_right_characters(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert (decoded.text, decoded.replaced) == (text, 0)
    assert decoded.encoding != "utf-8"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text",
    ["hi", "# Title\n\nText.\n", GERMAN, RUSSIAN, RUSSIAN + "\n" + RUSSIAN, CHINESE + "\n一二三 1 2 3\n", "€\n" * 9],
)
def test_utf16_without_a_mark_is_told_by_its_zero_bytes(text: str, encoding: str) -> None:
    decoded = decode(text.encode(encoding))
    assert (decoded.text, decoded.encoding) == (text, encoding)


def test_zero_characters_are_replaced_and_counted() -> None:
    decoded = decode(b"one\0two\0 and some more words")
    assert (decoded.text, decoded.encoding, decoded.replaced) == ("one\ufffdtwo\ufffd and some more words", "utf-8", 2)


def test_lone_surrogates_are_replaced_and_counted() -> None:
    for encoding in ("utf-8", "utf-16-le", "utf-32-be"):
        decoded = decode("\ufeffone \ud800 two".encode(encoding, "surrogatepass"))
        assert (decoded.text, decoded.replaced) == ("one \ufffd two", 1)


def test_a_replacement_character_of_the_source_is_not_counted() -> None:
    assert decode("one \ufffd two".encode()).replaced == 0


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_damaged_utf8_is_still_utf8_and_its_bad_places_are_counted(mark: bytes) -> None:
    decoded = decode(mark + (POLISH + "|" + GERMAN).encode().replace(b"|", b"\xff") + "ü".encode()[:1])
    assert (decoded.text, decoded.encoding, decoded.replaced) == (POLISH + "\ufffd" + GERMAN + "\ufffd", "utf-8", 2)


@pytest.mark.parametrize("data", [b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE])
def test_nothing_is_an_empty_text(data: bytes) -> None:
    assert decode(data).text == ""


def test_line_ends_stay() -> None:
    assert decode(b"a\r\nb\rc\n\x0bd\x85".replace(b"\x85", "\x85".encode())).text == "a\r\nb\rc\n\x0bd\x85"


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\x01\0\x08\x06\0\0\0",
        b"\0\1\2\3",
        bytes(range(256)) * 4,
        b"\x7fELF\x02\x01\x01" + bytes(60),
        b"PK\x03\x04\x14\0\x08\0\x08\0" + bytes(range(128, 256)),
        b"\x1f\x8b\x08\x08" + bytes((i * 167 + 13) % 255 + 1 for i in range(4000)),
        codecs.BOM_UTF16_LE + b"abc",
        codecs.BOM_UTF32_LE + b"\xff\xff\xff\xff",
        b"\x01\x02\x03" * 100,
    ],
)
def test_binary_content_is_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(data)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_clean_text_or_an_error(data: bytes) -> None:
    try:
        decoded = decode(data)
    except DecodeError:
        return
    assert "\0" not in decoded.text
    decoded.text.encode()
