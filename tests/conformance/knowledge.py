"""Knowledge conformance — what the store must do with indexes on every engine: whole, and gone with their version."""

from agentvm.model.knowledge import DocumentProblem, Passage
from agentvm.model.resource import ResourceId, VersionId
from agentvm.storage.sql.knowledge import SLICE_CHUNKS_MAX, IndexedChunk
from agentvm.storage.sql.search_index import SearchPiece
from agentvm.storage.sql.store import Store
from agentvm.storage.sql.words import terms
from tests.conformance.resources import publication, put, resource_id, version_id
from tests.conformance.store import ACME


def chunk(text: str, document: str = "a", start: int = 0, page: int | None = None) -> IndexedChunk:
    passage = Passage(uri="", document=document, start=start, end=start + len(text), text=text, title="T", page=page)
    return IndexedChunk(passage, terms(text))


def pieces(*words: str) -> list[SearchPiece]:
    return [SearchPiece(tuple(terms(word)), open_ended=False) for word in words]


async def published(store: Store, name: str) -> tuple[ResourceId, VersionId]:
    await put(store, publication(name, type="knowledge"))
    return resource_id(name), version_id(name)


async def check_a_search_finds_passages_of_its_own_index_best_first(store: Store) -> None:
    knowledge = store.knowledge
    (_, first), (_, second) = await published(store, "one"), await published(store, "two")
    texts = ["green tea is brewed at 80 degrees", "七天之内可以退货", "coffee and tea", "nothing of the kind"]
    built = await knowledge.build(first, 1, [chunk(text, start=10 * at) for at, text in enumerate(texts)], (), 5)
    other = await knowledge.build(second, 1, [chunk("green tea of another")], [DocumentProblem(document="b", problem="no")], 6)
    assert built is not None
    assert other is not None
    found = await knowledge.search([built.index_key], pieces("green", "tea", "degrees"), 5)
    assert [passage.text for _, passage in found] == [texts[0], texts[2]]
    assert {version for version, _ in found} == {first}
    assert [one.text for _, one in await knowledge.search([built.index_key], pieces("退货"), 5)] == [texts[1]]
    assert await knowledge.search([built.index_key], pieces("货退"), 5) == []
    assert await knowledge.search([built.index_key], [], 5) == []
    assert len(await knowledge.search([built.index_key, other.index_key], pieces("tea"), 2)) == 2
    again = await knowledge.find(second, 1)
    assert again == other
    assert await knowledge.find(second, 2) is None


async def check_a_range_opens_exactly(store: Store) -> None:
    _, version = await published(store, "one")
    await store.knowledge.build(version, 1, [chunk("abcdef", start=0), chunk("efghij", start=4, page=2)], (), 5)
    assert await store.knowledge.open(version, "a", 1, 4) == "bcd"
    assert await store.knowledge.open(version, "a", 4, 10) == "efghij"
    assert await store.knowledge.open(version, "a", 0, 10) is None
    assert await store.knowledge.open(version, "b", 0, 1) is None


async def check_an_index_is_replaced_as_a_whole_and_goes_with_its_version(store: Store) -> None:
    base, version = await published(store, "one")
    many = [chunk(f"tea {number}", start=number) for number in range(2 * SLICE_CHUNKS_MAX + 1)]
    assert await store.knowledge.build(version, 1, many, (), 5)
    again = await store.knowledge.build(version, 2, [chunk("coffee")], (), 6)
    assert again is not None
    assert await store.knowledge.find(version, 1) is None
    assert await store.knowledge.search([again.index_key], pieces("tea"), 5) == []
    assert await store.resources(ACME).delete(base, force=False, now=9)
    assert await store.knowledge.find(version, 2) is None
    assert await store.knowledge.search([again.index_key], pieces("coffee"), 5) == []
    assert await store.knowledge.build(version, 1, [chunk("late")], (), 10) is None
