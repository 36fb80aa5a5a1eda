"""Slices — nothing that may be large holds the writer for long: how many rows the largest commit of each changes."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.accounts import key, tenant
from tests.conformance.attachments import digest_of, referring
from tests.conformance.records import HOME, IMAGE, SESSION, default_session, image, turn
from tests.conformance.resources import publication, put
from tests.conformance.retention import say
from tests.conformance.sessions import mine, said
from tests.conformance.store import ACME, settle
from tests.storage.sql.commits import MANY, Commits, largest, opened

from agentvm.errors import StoreFailed
from agentvm.model.ids import KeyId, MessageId, RewindId, SessionId, TenantId
from agentvm.model.message import Message
from agentvm.model.retention import RetentionCutoffs
from agentvm.storage.attachments import Upload
from agentvm.storage.base import LogChunk, Rewinding, SessionWrite
from agentvm.storage.carry import Attached, Carried, Continued, Present, SessionContent
from agentvm.storage.retention import SessionAddress
from agentvm.storage.sql.store import Store


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
        place, retention = SessionAddress(HOME, SESSION), store.tenant(ACME).retention()
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


def archive(count: int) -> Iterator[Carried]:
    """A session that goes on with many messages and turns, then many images, each with a session, a message and a file."""
    yield Present(image())
    yield Continued(default_session(image()), None)
    turns = tuple(turn(f"t{number}", outcome="completed", ended=2) for number in range(200))
    yield SessionContent(tuple(many(0, count)), turns)
    for number in range(count // 10):
        body = f"file {number}".encode()
        new = image(f"new{number}", f"home{number}")
        yield from (new, default_session(new), Attached(digest_of(body), len(body), Upload(media_type="text/plain"), body))
        yield SessionContent((referring("m1", body),))


async def test_an_import_goes_in_slices_and_is_published_by_a_few_rows(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        home = await settle(store, image())
        commits.rows.clear()
        await store.carrier(ACME).add(lambda: archive(MANY), 7)
        assert largest(commits)
        # The last commit is the one that publishes: the arrival, the one session that was here, and its range.
        assert commits.rows[-1] <= 4
        assert len(await home.list_messages(SESSION)) == MANY
        assert len(await store.tenant(ACME).list_containers()) == MANY // 10 + 1


async def test_an_import_that_breaks_off_is_removed_in_slices(tmp_path: Path, commits: Commits) -> None:
    def load() -> Iterator[Carried]:
        yield from archive(MANY)
        commits.rows.clear()
        raise StoreFailed("the file is gone")

    async with opened(tmp_path) as store:
        home = await settle(store, image())
        with pytest.raises(StoreFailed):
            await store.carrier(ACME).add(load, 7)
        assert len(commits.rows) > MANY // 100
        assert largest(commits) < 1_000
        assert await home.list_messages(SESSION) == ()
        assert await store.tenant(ACME).list_containers() == (HOME,)
