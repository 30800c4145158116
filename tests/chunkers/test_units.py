"""The units of `sentence` and `semantic`, and how `sentence` packs them."""

from __future__ import annotations

import random

import pytest

from chunkers import Document, chunk
from chunkers.encoding import count_tokens
from chunkers.spans import Limit, furthest
from chunkers.units import paragraph_spans, sentence_units
from tests.chunkers.texts import DOCUMENT, SCRIPTS


def units(text: str, cap: int = 512) -> list[str]:
    return [text[start:end] for start, end in sentence_units(Document(text=text).analysis, Limit(cap))]


def sentence(text: str, size: int, overlap: int = 0) -> list[str]:
    return [c.text for c in chunk(text, "sentence", chunk_size=size, sentence_overlap=overlap)]


def test_prose_gives_a_unit_a_sentence() -> None:
    assert units("One here. Two here.\n\nThree here.") == ["One here.", "Two here.", "Three here."]


def test_headings_go_with_the_first_sentence_under_them() -> None:
    assert units("# A\n\n## B\n\nOne. Two.") == ["# A\n\n## B\n\nOne.", "Two."]


def test_headings_at_the_end_are_a_unit() -> None:
    assert units("One.\n\n# A\n\n## B\n") == ["One.", "# A\n\n## B"]


@pytest.mark.parametrize(
    "block", ["```\nOne. Two.\n```", "| A. B. |\n|---|\n| C. D. |", "> One. Two.", "<div>\nOne. Two.\n</div>"]
)
def test_a_block_that_is_no_prose_is_one_unit(block: str) -> None:
    assert units(f"Before.\n\n{block}\n\nAfter.") == ["Before.", block, "After."]


def test_a_list_gives_a_unit_an_item() -> None:
    assert units("- One. Two.\n- Three\n  - Four\n") == ["- One. Two.", "- Three\n  - Four"]


def test_an_item_over_the_cap_gives_its_sentences_and_inner_items() -> None:
    assert units("- One two three. Four five six.\n  - Seven\n  - Eight\n", 9) == [
        "- One two three.",
        "Four five six.",
        "  - Seven",
        "  - Eight",
    ]


def test_paragraphs_are_blocks_with_the_headings_before_them() -> None:
    text = "# A\n\nOne.\nTwo.\n\n- x\n- y\n\n# B\n"
    spans = paragraph_spans(Document(text=text).analysis)
    assert [text[start:end].rstrip() for start, end in spans] == ["# A\n\nOne.\nTwo.", "- x\n- y", "# B"]


def test_chunks_are_whole_sentences_up_to_the_cap() -> None:
    text = "One two three. Four five six. Seven eight nine."
    assert sentence(text, 8) == ["One two three. Four five six.", "Seven eight nine."]
    assert sentence(text, 7) == ["One two three.", "Four five six.", "Seven eight nine."]


def test_the_last_sentences_are_repeated() -> None:
    text = "A one. B two. C three. D four. E five."
    assert sentence(text, 9, 2) == ["A one. B two. C three.", "B two. C three. D four.", "C three. D four. E five."]


def test_the_overlap_gives_way_where_a_new_sentence_needs_the_room() -> None:
    long = "This one is a sentence of nine tokens."
    assert count_tokens(long) == 9
    assert sentence(f"A one. B two. {long} C three.", 12, 2) == [
        "A one. B two.",
        f"B two. {long}",
        f"{long} C three.",
    ]


def test_an_overlap_of_more_sentences_than_there_are_still_moves_on() -> None:
    text = "A one. B two. C three. D four."
    chunks = chunk(text, "sentence", chunk_size=6, sentence_overlap=1000)
    assert [c.text for c in chunks] == ["A one. B two.", "B two. C three.", "C three. D four."]


def test_a_sentence_over_the_cap_is_parted_inside() -> None:
    parts = sentence("Short one. " + "clause and words, " * 100 + "end. Last one.", 50)
    assert all(count_tokens(part) <= 50 for part in parts)
    assert parts[-1].endswith("end. Last one.")


def test_a_repeated_sentence_gives_distinct_starts() -> None:
    chunks = chunk("The same sentence again. " * 6, "sentence", chunk_size=12, sentence_overlap=1)
    starts = [c.start_char for c in chunks]
    assert starts == sorted(set(starts))
    assert len({c.id for c in chunks}) == len(chunks)


@pytest.mark.parametrize("characters", [None, 10])
@pytest.mark.parametrize("cap", [1, 3, 20])
def test_spans_trimmed_together_are_those_trimmed_one_by_one(cap: int, characters: int | None) -> None:
    text = (
        "".join([*SCRIPTS.values(), " \n\t word\u0301 \u3000x \x1c", " " * 9, "\n\n\n\n\n", " \u0301a", DOCUMENT]) * 2
    )
    analysis = Document(text=text).analysis
    chance = random.Random(4)
    pairs = [sorted(chance.sample(range(len(text) + 1), 2)) for _ in range(400)]
    spans = [(start, min(end, start + chance.choice([1, 5, 40, 400]))) for start, end in pairs]
    limit = Limit(cap, characters)
    assert limit.trimmed_all(analysis, spans) == [limit.trimmed(analysis, *span) for span in spans]
    assert limit.trimmed_all(analysis, spans[:3]) == [limit.trimmed(analysis, *span) for span in spans[:3]]


@pytest.mark.parametrize("guess", [None, -5, 0, 3, 7, 19, 20, 99])
@pytest.mark.parametrize("answer", [-1, 0, 1, 6, 7, 8, 18, 19])
def test_the_furthest_that_fits_is_found_from_any_guess(answer: int, guess: int | None) -> None:
    assert furthest(0, 20, lambda n: n <= answer, guess) == answer
    assert furthest(5, 5, lambda n: True, guess) == 4
