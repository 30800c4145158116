"""The strategy `semantic_parent_child`: clusters of paragraphs as parents, paragraphs as children."""

from __future__ import annotations

import pytest

from chunkers import Chunk, Document, Parent, build_chunker, chunk_document
from chunkers.encoding import count_tokens
from tests.chunkers.test_semantic import AngleEmbedder


def paragraphs(*angles: int) -> str:
    return "\n\n".join(f"Paragraph {angle} here." for angle in angles)


def parent_child(text: str, **parameters: object) -> tuple[list[Chunk], list[Parent]]:
    parameters.setdefault("embedder", AngleEmbedder())
    return chunk_document(Document(text=text), "semantic_parent_child", **parameters)  # type: ignore[arg-type]


def texts(slices: list[Chunk] | list[Parent]) -> list[str]:
    return [slice_.text for slice_ in slices]


def test_alike_paragraphs_form_a_cluster_that_is_the_parent() -> None:
    chunks, parents = parent_child(paragraphs(0, 10, 120, 130), semantic_threshold=0.5)
    assert texts(parents) == [paragraphs(0, 10), paragraphs(120, 130)]
    assert texts(chunks) == [paragraphs(angle) for angle in (0, 10, 120, 130)]
    assert [c.parent_id for c in chunks] == [parents[0].id] * 2 + [parents[1].id] * 2


def test_a_cosine_at_the_threshold_keeps_paragraphs_together() -> None:
    assert len(parent_child(paragraphs(0, 0), semantic_threshold=1.0)[1]) == 1
    assert len(parent_child(paragraphs(0, 90), semantic_threshold=0.1)[1]) == 2


def test_an_unset_threshold_is_the_models_own_for_paragraphs() -> None:
    embedder = AngleEmbedder()
    embedder.paragraph_threshold = 0.8
    chunker = build_chunker("semantic_parent_child", embedder=embedder)
    assert chunker.parameters["semantic_threshold"] == 0.8


def test_a_percentile_is_of_the_documents_own_cosines() -> None:
    _, parents = parent_child(paragraphs(0, 1, 7, 8), semantic_threshold_mode="percentile", semantic_threshold=30)
    assert texts(parents) == [paragraphs(0, 1), paragraphs(7, 8)]


def test_a_paragraph_over_the_cap_gives_several_children_of_one_parent() -> None:
    long = "Paragraph 5 " + "goes on and on " * 20 + "here."
    chunks, parents = parent_child(f"{paragraphs(5)}\n\n{long}", chunk_size=20)
    assert len(parents) == 1
    assert len(chunks) > 4
    assert {c.parent_id for c in chunks} == {parents[0].id}
    assert max(c.token_count for c in chunks) <= 20


def test_a_paragraphs_vector_is_the_mean_of_its_childrens() -> None:
    # 0 and 90 degrees: their mean is at 45, alike to the next paragraph's 45; the last child alone is not.
    long = "- Angle 0 has some words.\n- Angle 90 has some words."
    chunks, parents = parent_child(f"{long}\n\nAngle 45 here.", chunk_size=9, semantic_threshold=0.9)
    assert len(chunks) == 3
    assert texts(parents) == [f"{long}\n\nAngle 45 here."]


def test_what_is_embedded_is_what_is_stored() -> None:
    embedder = AngleEmbedder()
    chunks, _ = parent_child(paragraphs(0, 10, 20) + "\n\n" + "word " * 100, chunk_size=30, embedder=embedder)
    assert embedder.texts == texts(chunks)


def test_parents_keep_their_cap() -> None:
    text = paragraphs(*[3] * 30)
    _, parents = parent_child(text, chunk_size=10, parent_max_tokens=30)
    assert all(parent.token_count == count_tokens(parent.text) <= 30 for parent in parents)
    assert [parent.token_count for parent in parents] == [30] * 5


def test_a_paragraph_over_the_parents_cap_has_several_parents() -> None:
    chunks, parents = parent_child("word " * 100, chunk_size=10, parent_max_tokens=40)
    assert [parent.token_count for parent in parents] == [40, 40, 20]
    assert [sum(c.parent_id == parent.id for c in chunks) for parent in parents] == [4, 4, 2]


@pytest.mark.parametrize(("size", "expected"), [(512, 2048), (3000, 3000)])
def test_an_unset_parent_cap_is_2048_or_the_chunk_size(size: int, expected: int) -> None:
    chunker = build_chunker("semantic_parent_child", embedder=AngleEmbedder(), chunk_size=size)
    assert chunker.parameters["parent_max_tokens"] == expected


def test_one_paragraph_is_one_parent_and_embeds_nothing() -> None:
    embedder = AngleEmbedder()
    chunks, parents = parent_child("Only one.", embedder=embedder)
    assert (texts(chunks), texts(parents), embedder.texts) == (["Only one."], ["Only one."], [])


def test_a_heading_goes_with_the_paragraph_under_it() -> None:
    chunks, parents = parent_child(f"# Head\n\n{paragraphs(0)}\n\n{paragraphs(90)}")
    assert texts(chunks) == [f"# Head\n\n{paragraphs(0)}", paragraphs(90)]
    assert [(parent.headings, child.headings) for parent, child in zip(parents, chunks, strict=True)] == [
        (("Head",), ("Head",))
    ] * 2


def test_equal_paragraphs_and_clusters_have_ids_of_their_own() -> None:
    chunks, parents = parent_child(paragraphs(0, 180, 0, 180))
    assert len({slice_.id for slice_ in [*chunks, *parents]}) == 8


def test_a_parent_of_one_child_has_an_id_of_its_own() -> None:
    (child,), (parent,) = parent_child("Only one.")
    assert child.id != parent.id
    assert child.parent_id == parent.id


def test_documents_of_a_batch_are_embedded_together_and_clustered_apart() -> None:
    embedder = AngleEmbedder()
    documents = [Document(uri=f"{n}.md", text=paragraphs(0, 0)) for n in range(3)] + [
        Document(uri="blank.md", text=" ")
    ]
    results = build_chunker("semantic_parent_child", embedder=embedder).chunk(documents)
    assert embedder.calls == [6]
    assert [len(result.parents) for result in results] == [1, 1, 1, 0]
    assert len({parent.id for result in results for parent in result.parents}) == 3


def test_a_parent_keeps_a_character_whole_that_its_children_had_to_cut() -> None:
    chunks, parents = parent_child(" \u0301word", chunk_size=1, parent_max_tokens=3)
    assert texts(parents) == [" \u0301word"]
    assert texts(chunks) == ["\u0301", "word"]


def test_a_parent_ends_before_a_child_would_pass_the_end_of_a_cluster_that_it_holds() -> None:
    chunks, parents = parent_child("a\u0301\u0302\u0303- a", chunk_size=5, parent_max_tokens=6)
    assert texts(parents) == ["a\u0301\u0302\u0303", "- a"]
    assert "".join(texts(chunks)) == "a\u0301\u0302\u0303- a"
    assert all(parents[0].id == chunk.parent_id for chunk in chunks[:-1])
