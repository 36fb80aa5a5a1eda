"""What was erased is not in the files of the database any more: they are read as bytes."""

import io
import random
from pathlib import Path

import anyio
import apsw
import pytest
from tests.conformance import erasing as suite
from tests.conformance import knowledge as knowledge_suite
from tests.conformance.erasing import erase
from tests.conformance.records import image, session
from tests.conformance.store import ACME, settle

from agentvm.model.ids import ContainerId, MessageId, SessionId
from agentvm.model.message import UserMessage
from agentvm.storage.base import SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

VICTIM, NEIGHBOUR = ContainerId("victim"), ContainerId("neighbour")
MESSAGES = 600


async def test_no_word_of_an_erased_container_is_left_in_the_files(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    async with open_store(path) as store:
        await talk(store)
        await suite.fill(store, container=ContainerId("full"), words="plantedfull")
        for container in (VICTIM, ContainerId("full")):
            await store.erasing.delete_container(ACME, container, now=9)
        await erase(store)
        left = [path.read_bytes(), path.with_name("agentvm.db-wal").read_bytes()]
    assert [found.count(b"planted") for found in left] == [0, 0]
    assert left[0].count(b"nearby") > MESSAGES
    assert healthy(path)


@pytest.mark.parametrize("how", ["document", "revisions", "collection", "resource"])
async def test_no_word_of_a_deleted_document_is_left_in_the_files(how: str, tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    async with open_store(path) as store:
        books = store.collections(ACME)
        await suite.fill_collection(store, ACME, words="planted nearby")
        base, version = await knowledge_suite.published(store, "base")
        built = await store.knowledge(ACME).build(version, "1", [knowledge_suite.chunk("planted")], (), 5)
        assert built is not None
        if how != "resource":
            await store.resources(ACME).delete(base, force=False, now=8)
        match how:
            case "document":
                await books.delete_document("books", "a", 9)
            case "revisions":
                await books.put("books", io.BytesIO(b"other"), "a", None, None, 8)
                await books.forget("books", 2, 9)
            case "collection":
                await books.delete("books", 9)
            case _:
                await books.delete("books", 8)
                await store.resources(ACME).delete(base, force=False, now=9)
        assert "planted" in str(path.read_bytes()) + str(path.with_name("agentvm.db-wal").read_bytes())
        assert {erasure.target for erasure in await store.erasing.pending()} == {"collections/books", base}
        await erase(store)
        left = [path.read_bytes(), path.with_name("agentvm.db-wal").read_bytes()]
    assert [found.count(b"planted") for found in left] == [0, 0]
    assert healthy(path)


async def test_an_erasure_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    async with open_store(path) as store:
        await talk(store, messages=200)
        await store.erasing.delete_container(ACME, VICTIM, now=9)
        (erasure,) = await store.erasing.pending()
        await store.erasing.advance(erasure)
        await store.erasing.advance(erasure)
    async with open_store(path) as store:
        await erase(store)
    assert path.read_bytes().count(b"planted") == 0


async def test_a_reader_of_an_older_state_keeps_an_erasure_pending(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    async with open_store(path) as store:
        await talk(store, messages=20)
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM all_messages").fetchall()
        await store.erasing.delete_container(ACME, VICTIM, now=9)
        (erasure,) = await store.erasing.pending()
        while (await store.erasing.advance(erasure)).more:
            pass
        assert await store.erasing.clean(await store.erasing.pending(), anyio.lowlevel.checkpoint) is False
        reader.close()
        await erase(store)
        assert path.read_bytes().count(b"planted") == 0


async def talk(store: Store, messages: int = MESSAGES) -> None:
    """Two containers in which much is said in turn, also long things, in several sessions each."""
    chance = random.Random(1)
    for container in (VICTIM, NEIGHBOUR):
        home = await settle(store, image(f"img-{container}", container), container=container)
        for number in range(5):
            await home.add_session(session(f"{container}-{number}", f"img-{container}", container))
    for number in range(messages):
        for container, word in ((VICTIM, "planted"), (NEIGHBOUR, "nearby")):
            text = " ".join(f"{word}{chance.randrange(10**6)}" for _ in range(chance.choice((1, 5, 40, 400))))
            said = UserMessage(id=MessageId(f"{container}-m{number}"), timestamp=1, role="user", content=text)
            session_id = SessionId(f"{container}-{chance.randrange(5)}")
            write = SessionWrite(tenant_id=ACME, container_id=container, session_id=session_id, now=2, messages=[said])
            await store.commit([write], entry=text.encode(), forget=number)
    await store.commit([], forget=2**62)
    while await store.tend_search():
        pass
    while await store.tend_search():
        pass


def healthy(path: Path) -> bool:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return bool(connection.pragma("integrity_check") == "ok")
    finally:
        connection.close()
