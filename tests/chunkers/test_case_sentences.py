"""Sentences and characters that other tools cut in the wrong place: stops of other scripts, addresses, abbreviations, clusters."""

from __future__ import annotations

from itertools import pairwise

import pytest
import regex

from chunkers import STRATEGIES, Document
from chunkers.encoding import count_tokens
from tests.chunkers.cases import STRUCTURED, chunks_of, texts_of


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("zh", ["今天天气很好。", "我们去公园吧！", "你也来吗？", "我们等你们。"]),
        ("zh", ["他说：“我们走吧。”", "她说：“好的好！”", "然后他们走了。"]),
        ("zh", ["他买了3.5公斤。", "他用v1.2.3版。", "写信到a@b.co。"]),
        ("en", ["今天天气很好。", "我们去公园吧！", "你也来吗？"]),
        ("ja", ["これは文です。", "次の文はどこ？", "はい、ここです！"]),
        ("ja", ["「行こうよ。」", "と彼は言った。", "「はいはい！」", "彼女は笑った。"]),
    ],
)
def test_sentences_without_spaces_between_them_are_parted(strategy: str, language: str, expected: list[str]) -> None:
    document = Document(text="".join(expected), language=language)
    size = max(map(count_tokens, expected))
    assert min(count_tokens(left + right) for left, right in pairwise(expected)) > size
    assert texts_of(document, strategy, size) == expected


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("hi", ["नमस्ते दुनिया।", "यह हिन्दी का वाक्य है।"]),
        ("ar", ["كيف حالك اليوم؟", "أنا بخير والحمد لله."]),
        ("ur", ["وہ آج آیا۔", "وہ کل گئی۔"]),
        ("hy", ["Նա եկավ այսօր։", "Նա գնաց երեկ։"]),
        ("am", ["እሱ ዛሬ መጣ።", "እሷ ትናንት ሄደች።"]),
        ("el", ["Πού είσαι σήμερα;", "Είμαι εδώ."]),
    ],
)
def test_stops_of_other_scripts_end_a_sentence(strategy: str, language: str, expected: list[str]) -> None:
    text = " ".join(expected)
    assert texts_of(Document(text=text, language=language), strategy, count_tokens(text) - 1) == expected


ADDRESSES = [
    "someone.else@mail.example.com",
    "https://x.y/z?q=1.2&r=a!b#c.d",
    "www.example.co.uk/index.html",
    "v1.2.3-rc.4+build.5",
    "/etc/app.d/conf.yaml",
    "C:\\dir\\file.v2.txt",
    "10.0.0.1:8080",
    "1,234.56",
    "object.method().field",
]


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("address", ADDRESSES)
def test_an_address_is_whole_at_every_cap_that_it_fits(strategy: str, address: str) -> None:
    text = f"Some words stand before {address}, and after it some more. Then comes {address} again in a sentence."
    for size in range(count_tokens(f" {address},") + 1, 40):
        assert sum(part.count(address) for part in texts_of(text, strategy, size)) == 2


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize(
    ("language", "first", "second"),
    [
        ("en", "Dr. Smith of Acme Inc. met the U.S. team at 9 a.m. on Jan. 5.", "They agreed on it."),
        ("en", "Mr. and Mrs. Hall met Prof. Lee at 3 p.m. on Sept. 5.", "They left."),
        ("en", "He has a Ph.D. in maths, e.g. in sets, i.e. in logic.", "He left."),
        ("en", "J. R. R. Tolkien lived in the U.K. near St. Paul.", "He wrote."),
        ("de", "Das ist z. B. am 5. Januar gut, d. h. Dr. Meier kam.", "Er ging."),
        ("es", "El Sr. López y la Sra. Ruiz llegaron a casa.", "Se fueron."),
    ],
)
def test_a_sentence_with_abbreviations_is_one(strategy: str, language: str, first: str, second: str) -> None:
    text = f"{first} {second}"
    size = count_tokens(first)
    assert count_tokens(text) > size
    assert texts_of(Document(text=text, language=language), strategy, size) == [first, second]


CLUSTERS = [
    "👨‍👩‍👧‍👦",
    "🇩🇪",
    "👍🏽",
    "1️⃣",
    "e\u0301\u0323",
    "क्षि",
    "ᄒ\u1161\u11ab",
    "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    "\r\n",
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("spaced", [False, True])
def test_a_cluster_is_whole_at_every_cap_that_it_fits(strategy: str, cluster: str, spaced: bool) -> None:
    text = ("x " + cluster * 2 + (" " if spaced else "")) * 8
    edges = {0, *(found.end() for found in regex.finditer(r"\X", text))}
    for size in range(count_tokens(cluster) + 1, 48, 3):
        assert edges >= {edge for c in chunks_of(text, strategy, size) for edge in (c.start_char, c.end_char)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_family_is_whole_at_a_cap_of_32_and_parted_at_8(strategy: str) -> None:
    family = "👨‍👩‍👧‍👦"
    assert count_tokens(family) == 18
    assert texts_of(family * 5, strategy, 32) == [family] * 5
    parts = texts_of(family * 5, strategy, 8)
    assert "".join(parts) == family * 5
    assert max(map(count_tokens, parts)) <= 8
