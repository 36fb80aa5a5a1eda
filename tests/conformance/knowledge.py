"""Knowledge conformance — what the store must do with indexes on every engine: whole, and gone with their version."""

from array import array

import pytest

from agentvm.errors import NotAvailable
from agentvm.model.knowledge import DocumentProblem, Passage
from agentvm.model.resource import ResourceId, VersionId
from agentvm.storage.sql.knowledge import CANDIDATES_MAX, SLICE_CHUNKS_MAX, CompleteIndex, IndexedChunk
from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.store import Store
from agentvm.storage.sql.words import terms
from tests.conformance.resources import publication, put, resource_id, version_id
from tests.conformance.store import ACME, RIVAL


def chunk(text: str, document: str = "a", start: int = 0, page: int | None = None) -> IndexedChunk:
    passage = Passage(uri="", document=document, start=start, end=start + len(text), text=text, title="T", page=page)
    return IndexedChunk(passage, terms(text))


def pieces(*words: str) -> list[SearchPiece]:
    return [SearchPiece(tuple(terms(word)), open_ended=False) for word in words]


async def published(store: Store, name: str) -> tuple[ResourceId, VersionId]:
    await put(store, publication(name, type="knowledge"))
    return resource_id(name), version_id(name)


async def check_a_search_finds_passages_of_its_own_index_best_first(store: Store) -> None:
    knowledge = store.knowledge(ACME)
    (_, first), (_, second) = await published(store, "one"), await published(store, "two")
    texts = ["green tea is brewed at 80 degrees", "七天之内可以退货", "coffee and tea", "nothing of the kind"]
    built = await knowledge.build(first, "1", [chunk(text, start=10 * at) for at, text in enumerate(texts)], (), 5)
    other = await knowledge.build(
        second, "1", [chunk("green tea of another")], [DocumentProblem(document="b", problem="no")], 6
    )
    assert built is not None
    assert other is not None
    found = await knowledge.search(built, pieces("green", "tea", "degrees"), 5)
    assert [passage.text for _, passage in found] == [texts[0], texts[2]]
    assert [one.text for _, one in await knowledge.search(built, pieces("退货"), 5)] == [texts[1]]
    assert await knowledge.search(built, pieces("货退"), 5) == []
    assert await knowledge.search(built, [], 5) == []
    assert await knowledge.find(second, "1") == other
    assert await knowledge.find(second, "2") is None


async def check_an_index_is_nobody_elses(store: Store) -> None:
    """Neither its version nor its key finds it for another tenant."""
    _, version = await published(store, "one")
    built = await store.knowledge(ACME).build(version, "1", [chunk("green tea")], (), 5)
    assert built is not None
    theirs = store.knowledge(RIVAL)
    assert await theirs.find(version, "1") is None
    assert await theirs.find_any(version) is None
    assert await theirs.search(built, pieces("tea"), 5) == []
    assert await theirs.open(built, "a", 0, 5) is None
    assert await theirs.build(version, "1", [chunk("planted")], (), 6) is None
    assert len(await store.knowledge(ACME).search(built, pieces("tea"), 5)) == 1


async def check_a_range_opens_exactly(store: Store) -> None:
    _, version = await published(store, "one")
    knowledge = store.knowledge(ACME)

    async def opened(index: CompleteIndex, start: int, end: int) -> tuple[str, int | None] | None:
        passage = await knowledge.open(index, "a", start, end)
        assert passage is None or (passage.start, passage.end, passage.document, passage.title) == (start, end, "a", "T")
        return None if passage is None else (passage.text, passage.page)

    built = await knowledge.build(version, "1", [chunk("abcdef", start=0), chunk("efghij", start=4, page=2)], (), 5)
    assert built is not None
    assert await opened(built, 1, 4) == ("bcd", None)
    assert await opened(built, 4, 10) == ("efghij", None)
    # Passages overlap, and leave out space between them.
    assert await opened(built, 0, 10) == ("abcdefghij", None)
    assert await opened(built, 3, 9) == ("defghi", None)
    assert await opened(built, 7, 9) == ("hi", 2)
    assert await opened(built, 0, 11) is None
    assert await knowledge.open(built, "b", 0, 1) is None
    _, version = await published(store, "two")
    apart = await knowledge.build(version, "1", [chunk("abc", start=2), chunk("de", start=7), chunk("d", start=7)], (), 6)
    assert apart is not None
    assert await opened(apart, 3, 9) == ("bc\n\nde", None)
    assert await opened(apart, 0, 4) is None
    assert await opened(apart, 5, 6) is None


async def check_an_index_is_replaced_as_a_whole_and_goes_with_its_version(store: Store) -> None:
    base, version = await published(store, "one")
    many = [chunk(f"tea {number}", start=number) for number in range(2 * SLICE_CHUNKS_MAX + 1)]
    knowledge = store.knowledge(ACME)
    assert await knowledge.build(version, "1", many, (), 5)
    assert await knowledge.find_any(version) is not None
    again = await knowledge.build(version, "2", [chunk("coffee")], (), 6)
    assert again is not None
    assert await knowledge.find(version, "1") is None
    assert await knowledge.search(again, pieces("tea"), 5) == []
    assert await store.resources(ACME).delete(base, force=False, now=9)
    assert await knowledge.find(version, "2") is None
    assert await knowledge.search(again, pieces("coffee"), 5) == []
    assert await knowledge.build(version, "1", [chunk("late")], (), 10) is None


async def check_the_nearest_vectors_come_first(store: Store) -> None:
    _, version = await published(store, "one")
    vectors = {"east": (1.0, 0.1), "north": (0.1, 1.0), "south": (0.1, -1.0), "none": None}
    made = [
        IndexedChunk(chunk(name, start=10 * at).passage, [name], None if vector is None else array("f", vector).tobytes())
        for at, (name, vector) in enumerate(vectors.items())
    ]
    knowledge = store.knowledge(ACME)
    built = await knowledge.build(version, "1", made, (), 5)
    assert built is not None
    wanted = array("f", (0.6, 0.8)).tobytes()
    found = await knowledge.nearest(built, wanted, 2)
    assert [passage.text for _, passage in found] == ["north", "east"]
    assert len(await knowledge.nearest(built, wanted, 9)) == 3
    assert await store.knowledge(RIVAL).nearest(built, wanted, 9) == []
    # An embedder whose model was exchanged under the same name.
    with pytest.raises(NotAvailable, match="another length"):
        await knowledge.nearest(built, array("f", [0.1] * 16).tobytes(), 9)
    other = array("f", (1.0, 0.1, 0.1)).tobytes()
    assert await knowledge.nearest(built, other, 9) == []


async def check_vectors_of_positive_numbers_are_told_apart(store: Store) -> None:
    """There are more of them than are compared exactly."""
    _, version = await published(store, "one")
    most, other = array("f", (2.0, 1.0) * 4).tobytes(), array("f", (1.0, 2.0) * 4).tobytes()
    places = range(CANDIDATES_MAX + 1)
    made = [IndexedChunk(chunk(f"tea {place}", start=10 * place).passage, [], most) for place in places]
    made.append(IndexedChunk(chunk("coffee", start=9_000).passage, [], other))
    knowledge = store.knowledge(ACME)
    built = await knowledge.build(version, "1", made, (), 5)
    assert built is not None
    assert [passage.text for _, passage in await knowledge.nearest(built, other, 1)] == ["coffee"]
