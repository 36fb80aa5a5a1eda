"""What SQLite does with attachments beyond what every store must do; and what is collected, against a model."""

import asyncio
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any, TypeVar

import anyio
import hypothesis.strategies as st
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.conformance.attachments import BODY, digest_of, referring, upload
from tests.conformance.records import SESSION, default_session, image, session
from tests.conformance.store import ACME, RIVAL, settle
from tests.support.examples import examples

from agentvm.errors import ContainerNotFound, StoreFailed
from agentvm.errors.attachment import AttachmentInUse
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.storage.attachments import CHUNK_BYTES, Upload
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase
from agentvm.storage.sql import attachments
from agentvm.storage.sql.attachments import DROPPED_MAX, PIECE_CHUNKS_MAX, collect_attachments, drop_abandoned_slice, read_all
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import Store

T = TypeVar("T")
GRACE = 10
TEXT = Upload(media_type="text/plain")


async def test_the_bytes_are_stored_once_for_all(database: SqliteDatabase, store: Store) -> None:
    for tenant in (ACME, RIVAL):
        for container in ("home", "other"):
            await upload(await settle(store, tenant=tenant, container=container))
    await attachments.drop_released(database)
    counts = await database.read(
        lambda connection: [connection.fetch(f"SELECT count(*) FROM {name}", ())[0][0] for name in ("blobs", "attachments")]
    )
    assert counts == [1, 4]
    assert await database.read(lambda connection: connection.fetch("SELECT length(body) FROM blob_chunks", ())) == [
        (CHUNK_BYTES,),
        (len(BODY) - CHUNK_BYTES,),
    ]


async def test_many_go_some_at_a_time(store: Store) -> None:
    home = await settle(store)
    for number in range(DROPPED_MAX + 3):
        await home.attachments.add(BytesIO(str(number).encode()), TEXT, 1)
    assert [await store.collect(GRACE + 1, grace=GRACE) for _ in range(3)] == [DROPPED_MAX, 3, 0]


async def test_large_ones_go_a_few_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else writes waits for one commit."""
    monkeypatch.setattr(attachments, "DROPPED_BYTES_MAX", 250)
    home = await settle(store)
    for number in range(5):
        await home.attachments.add(BytesIO(bytes([number]) * 100), TEXT, 1)
    await home.attachments.add(BytesIO(b"x" * 300), TEXT, 2)
    assert [await store.collect(GRACE + 2, grace=GRACE) for _ in range(5)] == [3, 3, 0, 0, 0]


async def test_uploads_and_collecting_at_the_same_time_lose_nothing(store: Store) -> None:
    """The same bytes are uploaded and sent by some, and forgotten by others and collected: whoever has sent them has them."""
    containers = [await settle(store, image(f"i{number}", f"c{number}"), container=f"c{number}") for number in range(4)]
    forgetful = await settle(store, tenant=RIVAL)
    clock = iter(range(10_000, 10**6))
    dropped = 0
    forgotten = anyio.Event()

    async def send(home: ContainerStore, number: int) -> None:
        for turn in range(10):
            body = f"body {turn % 3}".encode()
            await home.attachments.add(BytesIO(body), TEXT, next(clock))
            now = next(clock)
            assert await home.attachments.claim([digest_of(body)], now)
            await home.log(SessionId(f"i{number}-default")).record(messages=[referring(f"m{turn}", body)], now=now)
            assert await read_all(home.attachments, digest_of(body)) == body

    async def forget() -> None:
        for turn in range(40):
            # Long ago, so that the next that collects takes it.
            await forgetful.attachments.add(BytesIO(f"body {turn % 3}".encode()), TEXT, 1)
        forgotten.set()

    async def collect() -> None:
        nonlocal dropped
        while not (forgotten.is_set() and dropped):
            # Before any of the others, so that what they have just uploaded is never too old.
            dropped += await store.collect(10_000, grace=1_000)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number, home in enumerate(containers):
                tasks.start_soon(send, home, number)
            tasks.start_soon(forget)
            tasks.start_soon(collect)
    assert dropped
    for home in containers:
        assert len((await home.attachments.list()).items) == 3
        for turn in range(3):
            assert await read_all(home.attachments, digest_of(body := f"body {turn}".encode())) == body


async def test_an_upload_that_takes_longer_than_the_grace_is_whole(
    database: SqliteDatabase, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = await settle(store)
    body = b"x" * (CHUNK_BYTES * (PIECE_CHUNKS_MAX + 1))

    put_aside = home.attachments._put_aside

    async def put_aside_and_collect(*arguments: Any) -> str | None:
        begun = await put_aside(*arguments)
        # Cut off after its first slice: some of the bytes are gone and some are not.
        await database.write(lambda connection: collect_attachments(connection, GRACE * 2, GRACE))
        assert await database.write(drop_abandoned_slice)
        return begun

    monkeypatch.setattr(home.attachments, "_put_aside", put_aside_and_collect)
    await home.attachments.add(BytesIO(body), TEXT, 1)
    assert await read_all(home.attachments, digest_of(body)) == body


BODIES = {"a": b"a", "b": b"b", "large": b"c" * (CHUNK_BYTES + 1)}
SCOPES = [("t", "x"), ("t", "y"), ("u", "x")]
one_of = st.sampled_from


class CollectMachine(RuleBasedStateMachine):
    """The model: when each attachment was last of use, and which messages refer to it."""

    def __init__(self) -> None:
        super().__init__()
        self.portal_context = start_blocking_portal()
        self.portal = self.portal_context.__enter__()
        self.store_context = self.portal.wrap_async_context_manager(open_store(None))
        self.store: Store = self.store_context.__enter__()
        self.now = 1
        self.made = 0
        self.since: dict[tuple[tuple[str, str], str], int | None] = {}
        """None: it was released, and no call of `collect` has seen it since."""
        self.sessions: dict[tuple[tuple[str, str], str], list[str]] = {}
        for scope in SCOPES:
            self.run(self.at(scope).create, 1)
            built = image(f"i-{scope[1]}", scope[1])
            self.run(self.at(scope).add_image, built, default_session(built))

    def teardown(self) -> None:
        self.store_context.__exit__(None, None, None)
        self.portal_context.__exit__(None, None, None)

    def run(self, call: Callable[..., Awaitable[T]], *given: object) -> T:
        return self.portal.call(call, *given)

    def at(self, scope: tuple[str, str]) -> ContainerStore:
        return self.store.tenant(TenantId(scope[0])).container(ContainerId(scope[1]))

    def used(self, scope: tuple[str, str], body: str) -> bool:
        return any(body in bodies for (where, _), bodies in self.sessions.items() if where == scope)

    def release(self, scope: tuple[str, str], bodies: list[str]) -> None:
        for body in bodies:
            if (scope, body) in self.since and not self.used(scope, body):
                self.since[scope, body] = None

    @rule(by=st.integers(1, GRACE))
    def time_goes_by(self, by: int) -> None:
        self.now += by

    @rule(scope=one_of(SCOPES), body=one_of(sorted(BODIES)))
    def upload(self, scope: tuple[str, str], body: str) -> None:
        _, new = self.run(self.at(scope).attachments.add, BytesIO(BODIES[body]), TEXT, self.now)
        assert new is ((scope, body) not in self.since)
        self.since[scope, body] = self.now

    @rule(scope=one_of(SCOPES), body=one_of(sorted(BODIES)))
    def claim(self, scope: tuple[str, str], body: str) -> None:
        found = self.run(self.at(scope).attachments.claim, [digest_of(BODIES[body])], self.now)
        assert bool(found) is ((scope, body) in self.since)
        if found:
            self.since[scope, body] = self.now

    @rule(scope=one_of(SCOPES), bodies=st.lists(one_of(sorted(BODIES)), max_size=3))
    def send(self, scope: tuple[str, str], bodies: list[str]) -> None:
        self.made += 1
        name = f"s{self.made}"
        made = session(name, f"i-{scope[1]}", scope[1])
        self.run(self.at(scope).add_session, made, [referring("m", *(BODIES[body] for body in bodies))])
        self.sessions[scope, name] = [body for body in bodies if (scope, body) in self.since]

    @rule(data=st.data())
    def purge(self, data: st.DataObject) -> None:
        if self.sessions:
            scope, name = data.draw(one_of(sorted(self.sessions)))
            self.run(self.store.tenant(TenantId(scope[0])).sessions(None).delete, SessionId(name), self.now)
            self.run(self.store.purge_sessions, self.now)
            self.release(scope, self.sessions.pop((scope, name)))

    @rule(scope=one_of(SCOPES), body=one_of(sorted(BODIES)))
    def delete(self, scope: tuple[str, str], body: str) -> None:
        there, used = (scope, body) in self.since, self.used(scope, body)
        try:
            assert self.run(self.at(scope).attachments.delete, digest_of(BODIES[body])) is there
        except AttachmentInUse:
            assert used
        else:
            assert not (there and used)
            self.since.pop((scope, body), None)

    @rule()
    def collect(self) -> None:
        ripe = [
            (scope, body)
            for (scope, body), since in self.since.items()
            if since is not None and since <= self.now - GRACE and not self.used(scope, body)
        ]

        async def collect() -> int:
            return await self.store.collect(self.now, grace=GRACE)

        assert self.run(collect) == len(ripe)
        for gone in ripe:
            del self.since[gone]
        self.since = {key: self.now if since is None else since for key, since in self.since.items()}

    @invariant()
    def everybody_has_what_is_theirs(self) -> None:
        for scope in SCOPES:
            store = self.at(scope).attachments
            for body in BODIES:
                there = (scope, body) in self.since
                assert self.run(read_all, store, digest_of(BODIES[body])) == (BODIES[body] if there else None)


TestCollectingAgainstItsModel = CollectMachine.TestCase
TestCollectingAgainstItsModel.settings = settings(
    max_examples=examples(10, 200), stateful_step_count=30, deadline=None, database=None
)


async def test_a_message_keeps_what_it_refers_to_also_if_it_is_recorded_twice(store: Store) -> None:
    home = await settle(store, image())
    await upload(home)
    for _ in range(2):
        await home.log(SESSION).record(messages=[referring("m1", BODY)], now=2)
    await home.delete_image(image().image_id)
    assert [await store.collect(now, grace=1) for now in (3, 4)] == [0, 1]


LARGE = bytes(range(256)) * (PIECE_CHUNKS_MAX * CHUNK_BYTES // 256) + b"more"


async def begun(database: SqliteDatabase) -> list[tuple[str, int | None]]:
    return await database.read(lambda connection: connection.fetch("SELECT digest, begun_at FROM blobs ORDER BY blob_key"))


async def test_a_large_file_lets_others_write_in_between_and_is_nobodys_until_it_is_whole(
    database: SqliteDatabase, store: Store
) -> None:
    home = await settle(store, image())
    others = await settle(store, container="other")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            # Two at the same time, of whom one comes second.
            for where in (home, others):
                tasks.start_soon(where.attachments.add, BytesIO(LARGE), TEXT, 5)
    for where in (home, others):
        assert await read_all(where.attachments, digest_of(LARGE)) == LARGE
    assert {at for _, at in await begun(database)} == {None, 1}, "what came second goes with the next collection"
    await attachments.drop_released(database)
    assert await begun(database) == [(digest_of(LARGE), None)]
    assert await database.read(lambda connection: connection.fetch("SELECT count(*) FROM blob_chunks")) == [
        (PIECE_CHUNKS_MAX + 1,)
    ]


class Counted:
    """A database that counts what is written to it."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self.writes: list[int] = []

    async def write(self, work: Callable[[SqliteConnection], T]) -> T:
        def counted(connection: SqliteConnection) -> T:
            before = connection.raw.total_changes()
            try:
                return work(connection)
            finally:
                self.writes.append(connection.raw.total_changes() - before)

        return await self._database.write(counted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


@pytest.mark.parametrize("body", [b"small", LARGE], ids=["small", "large"])
async def test_a_file_that_another_tenant_has_is_as_much_work_as_one_that_nobody_has(
    database: SqliteDatabase, store: Store, body: bytes
) -> None:
    await (await settle(store, tenant=RIVAL)).attachments.add(BytesIO(body), TEXT, 5)
    await settle(store, image())
    counted = Counted(database)
    own = attachments.AttachmentStore(counted, (ACME, image().container_id))
    work = []
    for one in (body, body[::-1]):
        counted.writes.clear()
        _, new = await own.add(BytesIO(one), TEXT, 6)
        assert new
        work.append((len(counted.writes), sum(counted.writes)))
    # One row is the digest that a new one gets, or the note that a spare one is given up.
    assert work[0] == work[1]
    counted.writes.clear()
    assert not (await own.add(BytesIO(body), TEXT, 7))[1]
    assert sum(counted.writes) < work[0][1], "what the tenant has itself is not written again"


async def test_what_was_given_up_does_not_pile_up(
    database: SqliteDatabase, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_GIVEN_UP_BYTES", 10)
    home, rival = await settle(store, image()), await settle(store, tenant=RIVAL)
    for number in range(4):
        for where in (home, rival):
            await where.attachments.add(BytesIO(b"content %d" % number), TEXT, 6)
    assert len([at for _, at in await begun(database) if at == 1]) <= 2


async def test_what_is_refused_or_cut_off_leaves_no_bytes(database: SqliteDatabase, store: Store) -> None:
    home = await settle(store)

    class Cut(BytesIO):
        """Ends the upload in its middle, once the bytes are known."""

        scope = anyio.CancelScope()

        def seek(self, offset: int, whence: int = 0) -> int:
            if offset:
                loop.call_soon_threadsafe(self.scope.cancel)
            return super().seek(offset, whence)

    loop = asyncio.get_running_loop()
    with Cut.scope:
        await home.attachments.add(Cut(LARGE * 3), TEXT, 5)
    assert Cut.scope.cancelled_caught
    assert (await home.attachments.list()).items == ()
    left = await begun(database)
    assert [at for _, at in left] == [5]
    assert await store.collect(5 + GRACE - 1, grace=GRACE) == 0
    assert await begun(database) == left
    await store.collect(5 + GRACE, grace=GRACE)
    assert await begun(database) == []
    nowhere = store.tenant(ACME).container(ContainerId("nowhere"))
    with pytest.raises(ContainerNotFound):
        await nowhere.attachments.add(BytesIO(LARGE), TEXT, 5)
    assert await begun(database) == []


@pytest.mark.parametrize("size", [100, len(LARGE) * 2])
async def test_a_file_that_cannot_be_read_again_fails_nobody_else(store: Store, size: int) -> None:
    class Broken(BytesIO):
        """Can be read once."""

        begun = 0

        def seek(self, offset: int, whence: int = 0) -> int:
            self.begun += 1
            return super().seek(offset, whence)

        def read(self, size: int | None = -1) -> bytes:
            if self.begun > 1:
                raise OSError(5, "Input/output error")
            return super().read(size)

    home = await settle(store)
    with anyio.fail_after(60):
        with pytest.raises(StoreFailed, match="cannot be read again"):
            await home.attachments.add(Broken(b"x" * size), TEXT, 5)
        await upload(home)
