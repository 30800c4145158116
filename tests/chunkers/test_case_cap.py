"""The token cap where other tools pass it: no punctuation, no spaces, sums of parts, long titles, other scripts, special tokens."""

from __future__ import annotations

import pytest

from chunkers import STRATEGIES, Document, chunk
from chunkers.encoding import count_tokens, encoding
from tests.chunkers.cases import STRUCTURED, chunked, chunks_of, settings, texts_of
from tests.doubles import HashEmbedder

WORDS = ["river", "stone", "cloud", "over", "under", "between", "garden", "window"]


def words(number: int) -> str:
    return " ".join(WORDS[n % 7 * n % 8] for n in range(number))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_words_without_punctuation_fill_their_chunks(strategy: str) -> None:
    text = words(2000)
    assert count_tokens(text) == 2000
    parts = texts_of(text, strategy, 100)
    assert " ".join(part.strip() for part in parts) == text
    assert [count_tokens(part) for part in parts] == [100] * 20


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("clause", ["{}", "{},", "({})", "“{}”", "{} –"])
def test_a_sentence_over_the_cap_is_parted_between_its_words(strategy: str, clause: str) -> None:
    text = " ".join(clause.format(word) for word in words(400).split()) + "."
    parts = texts_of(text, strategy, 64)
    assert " ".join(parts) == text
    assert max(map(count_tokens, parts)) <= 64
    assert min(map(count_tokens, parts[:-1])) > 48


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_sentences_beside_one_over_the_cap_stay_whole(strategy: str) -> None:
    parts = texts_of(f"Short one here. {words(400)}. Last one here.", strategy, 64)
    assert parts[0].startswith("Short one here.")
    assert parts[-1].endswith(". Last one here.")


YAML = "".join(f"service_{n}:\n  image: registry.example/app:{n}\n  ports: [{8000 + n}]\n" for n in range(1000))
RECORDS = "".join(f"key_{n}: value {n * 7}\n" for n in range(200))
LOG = "".join(f"2024-05-01T12:{n % 60:02d}:00Z INFO  worker-{n} done in {n}ms\r\n" for n in range(300))
CSV = "".join(f'{n},"name {n}",{n / 7:.3f}\n' for n in range(300))


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("media_type", ["text/markdown", "text/plain"])
@pytest.mark.parametrize(("text", "size"), [(YAML, 512), (YAML, 2048), (RECORDS, 50), (LOG, 64), (CSV, 40)])
def test_lines_without_a_sentence_end_stay_whole(strategy: str, media_type: str, text: str, size: int) -> None:
    parts = texts_of(Document(text=text, media_type=media_type), strategy, size)
    assert "\n".join(parts).splitlines() == text.splitlines()
    assert max(map(count_tokens, parts)) <= size


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [1, 2, 3, 16, 128])
def test_the_cap_counts_the_final_string_and_not_the_sum_of_its_parts(strategy: str, size: int) -> None:
    # "a", " ", "\n", "b" have four tokens alone and three together; digits in threes and letters the other way round.
    pieces = ["a ", "\n", "b\n\n ", "12", "34", "5. ", "don", "'t ", "...", "\n", "un", "believ", "able ", "  ", "\t"]
    text = "".join(pieces) * 40
    assert sum(map(count_tokens, pieces)) * 40 != count_tokens(text)
    chunks, parents = chunked(text, strategy, size)
    assert len(chunks) > 1
    for slice_, cap in [*((c, size) for c in chunks), *((p, 2048) for p in parents)]:
        assert slice_.token_count == len(encoding().encode(slice_.text, disallowed_special=())) <= cap


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_title_over_the_cap_is_no_error_and_its_context_is_bounded(strategy: str) -> None:
    title = words(600)
    document = Document(text=f"# {title}\n\nBody text here.\n", title=title)
    chunks = chunk(document, strategy, embedder=HashEmbedder(), **settings(strategy, 512))
    assert [c.text.split()[-1] for c in chunks] == [chunks[0].text.split()[-1], "here."]
    assert all(c.token_count <= 512 and len(c.context or "") <= 300 for c in chunks)
    assert {c.headings for c in chunks} == {(title[:299].rstrip() + "…",)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_path_of_long_headings_takes_nothing_from_the_cap(strategy: str) -> None:
    headings = "".join(f"{'#' * level} {words(40)}\n\n" for level in range(1, 7))
    chunks = chunk(headings + words(300), strategy, embedder=HashEmbedder(), **settings(strategy, 100))
    assert chunks[-1].headings == (words(40),) * 6
    assert [c.token_count for c in chunks[-3:-1]] == [100, 100]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "text",
    [
        "今天天气很好我们去公园散步然后回家" * 360,
        "สวัสดีชาวโลกนี่คือข้อความ" * 200,
        "ゲームをする" * 900,
        "한국어문장" * 1000,
        "ᚠᚢᚦᚨᚱᚲ" * 600,
    ],
)
def test_scripts_without_spaces_are_within_the_cap_and_complete(strategy: str, text: str) -> None:
    chunks = chunks_of(text, strategy)
    assert "".join(c.text for c in chunks) == text
    assert max(c.token_count for c in chunks) <= 512
    assert len(chunks) > count_tokens(text) // 512


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "run", ["SGVsbG8gd29ybGQhIFRoaXM" * 90, "=+" * 1500, "0123456789" * 200, "\\x90" * 500, "🚀" * 300]
)
@pytest.mark.parametrize("before", ["", "\n\n", " "])
def test_a_first_word_over_the_cap_leaves_no_empty_chunk_before_it(strategy: str, run: str, before: str) -> None:
    chunks = chunks_of(f"{before}{run} then some words", strategy, 64)
    assert chunks[0].text.strip() == run[: len(chunks[0].text.strip())] != ""
    assert "".join("".join(c.text for c in chunks).split()) == f"{run}thensomewords"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("special", ["<|endoftext|>", "<|fim_prefix|>", "<|endofprompt|>", "<|im_start|>"])
def test_a_special_token_counts_as_the_text_that_it_is(strategy: str, special: str) -> None:
    assert count_tokens(special) > 4
    parts = texts_of(special, strategy, 4)
    assert len(parts) > 1
    assert "".join(parts) == special


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_heading_that_quotes_a_special_token_is_told_as_it_is(strategy: str) -> None:
    (only,) = chunks_of("# The <|endoftext|> token\n\nIt ends a text.", strategy)
    assert only.headings == ("The <|endoftext|> token",)
