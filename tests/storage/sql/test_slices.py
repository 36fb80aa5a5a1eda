"""Slices — nothing that may be large holds the writer for long: how many rows the largest commit of each changes."""

import io
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import apsw
import pytest
from tests.conformance.accounts import key, tenant
from tests.conformance.records import HOME, IMAGE, SESSION, image
from tests.conformance.resources import publication, put
from tests.conformance.retention import say
from tests.conformance.sessions import mine, said
from tests.conformance.store import ACME, settle

from agentvm.model.ids import KeyId, MessageId, RewindId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.model.retention import RetentionCutoffs
from agentvm.storage.attachments import Upload
from agentvm.storage.base import LogChunk, Rewinding, SessionWrite
from agentvm.storage.engine import open_store
from agentvm.storage.retention import SessionPlace
from agentvm.storage.sql.store import Store

pytestmark = pytest.mark.anyio

ROWS_MAX = 2_000
"""Rows that a commit may change, with those of indexes that triggers keep: a few hundredths of a second."""
MANY = 3_000
"""More messages than that, were they one commit."""


class Commits:
    """How many rows each commit of every connection has changed."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def watch(self, connection: apsw.Connection) -> None:
        before = connection.total_changes()

        def note() -> bool:
            nonlocal before
            self.rows.append(connection.total_changes() - before)
            before = connection.total_changes()
            return False

        connection.set_commit_hook(note)


@pytest.fixture
def commits() -> Iterator[Commits]:
    watching = Commits()
    apsw.connection_hooks.append(watching.watch)
    yield watching
    apsw.connection_hooks.remove(watching.watch)


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[Store]:
    with anyio.fail_after(60):
        async with open_store(tmp_path / "agentvm.db") as store:
            yield store


def many(first: int = 0, count: int = MANY) -> list[Message]:
    return [said(f"m{number}", f"hello number {number}", number) for number in range(first, first + count)]


async def add_messages(store: Store, session_id: SessionId = SESSION, tenant: TenantId = ACME, count: int = MANY) -> None:
    log = store.tenant(tenant).container(HOME).log(session_id)
    for first in range(0, count, 200):
        await log.record(messages=many(first, min(200, count - first)), now=2)
    while await store.tend_search():
        pass


async def add_log(store: Store, chunks: int) -> None:
    for number in range(chunks):
        chunk = LogChunk(first_seq=number + 1, last_seq=number + 1, made_at=number, body=b"x" * 100)
        await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=1, chunk=chunk)])


def largest(commits: Commits) -> int:
    worst = max(commits.rows)
    assert worst < ROWS_MAX, f"a commit changed {worst} rows"
    return worst


async def test_deleting_an_image_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        home = await settle(store, image())
        await add_messages(store)
        await add_log(store, 300)
        commits.rows.clear()
        assert await home.delete_image(IMAGE)
        assert len(commits.rows) > MANY // 100
        assert largest(commits)
        assert await home.get_image(IMAGE) is None
        assert await home.get_session(SESSION) is None


async def test_rewinding_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        home = await settle(store, image())
        await add_messages(store)
        taken = Rewinding(RewindId("r"), [MessageId(f"m{number}") for number in range(1, MANY)], 8)
        commits.rows.clear()
        await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=8, rewind=taken)])
        assert largest(commits) < 10
        assert [message.id for message in await home.list_messages(SESSION)] == ["m0"]
        while await store.tend_search():
            pass
        assert len(commits.rows) > MANY // 100
        assert largest(commits)
        assert [message.id for message in await home.list_messages(SESSION)] == ["m0"]


async def test_purging_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        await settle(store, image())
        await add_messages(store)
        await add_log(store, 300)
        await store.tenant(ACME).sessions((HOME,)).delete(SESSION, 8)
        commits.rows.clear()
        assert await store.purge_sessions(7) == ()
        assert await store.purge_sessions(8) == ((ACME, SESSION),)
        assert largest(commits)


async def test_deleting_a_tenant_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        await store.directory.add_tenant(tenant())
        for number in range(300):
            await store.accounts(ACME).keys.add(key(f"k{number}"), b"digest")
            await put(store, publication(f"prompt{number}"))
        commits.rows.clear()
        assert await store.directory.delete_tenant(ACME, now=9)
        for erasure in await store.erasing.pending():
            while (await store.erasing.advance(erasure)).more:
                pass
        assert largest(commits) < 500
        assert not await store.directory.has_keys()


async def test_keys_of_a_deleted_tenant_open_nothing_though_they_are_still_there(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await store.directory.add_tenant(tenant())
        await store.accounts(ACME).keys.add(key("k1"), b"digest")
        assert await store.directory.find_key(KeyId("k1")) is not None
        mark = "UPDATE tenants SET deleted_at = 9"
        await store._database.write(lambda connection: connection.execute(mark))
        assert await store.directory.find_key(KeyId("k1")) is None
        assert not await store.directory.has_keys()


async def test_emptying_a_session_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        home = await settle(store, image())
        await add_messages(store)
        await add_log(store, 2_500)
        taken = Rewinding(RewindId("r"), [MessageId(f"m{number}") for number in range(MANY)], 8)
        await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=8, rewind=taken)])
        await store.tend_search()
        commits.rows.clear()
        cutoffs = RetentionCutoffs(sessions=10**6, archived=None, rewound=None, messages=None)
        assert await store.tenant(ACME).retention().clear(SESSION, cutoffs, 9) is not None
        assert largest(commits) < 700
        assert await home.log(SESSION).range() == (2_501, 2_500)
        assert await mine(store).rewinds(SESSION) == ()


async def test_the_log_of_old_turns_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        home = await settle(store, image())
        await say(store, SESSION, "t", 2_399)
        await add_log(store, 2_500)
        place, retention = SessionPlace(HOME, SESSION), store.tenant(ACME).retention()
        turns = await retention.old_turns(place, None)
        commits.rows.clear()
        assert (await retention.drop_turns(place, turns)).messages == 2
        assert largest(commits) < 100
        assert await home.log(SESSION).range() == (2_402, 2_500)


async def test_trimming_a_log_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        await settle(store, image())
        await add_log(store, 2_500)
        commits.rows.clear()
        assert await store.trim_log(1_000, 10**9) == 1_000
        assert await store.trim_log(0, 100_000) == 500
        assert await store.trim_log(0, 0) == 999
        assert largest(commits) <= 100


async def test_entries_of_the_journal_are_forgotten_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        for _ in range(1_200):
            last = (await store.commit([], entry=b"x" * 500)).entry
        commits.rows.clear()
        while len(await store.read_journal()) > 1:
            await store.commit([], forget=last)
        assert 3 <= len(commits.rows)
        assert largest(commits) < 1_000


async def test_a_large_file_is_deleted_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        home = await settle(store, image())
        attachment, _ = await home.attachments.add(io.BytesIO(b"x" * 5_000_000), Upload(media_type="application/pdf"), 1)
        commits.rows.clear()
        assert await home.attachments.delete(attachment.digest)
        assert await home.attachments.get(attachment.digest) is None
        # Chunks of 256 KiB, two at a time.
        assert len(commits.rows) >= 10
        assert largest(commits) <= 3
