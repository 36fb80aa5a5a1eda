"""What happens when the disk fails: a real one is imitated below SQLite, by a virtual file system that says no."""

from collections.abc import Generator
from pathlib import Path

import anyio
import apsw
import pytest
from tests.conformance.records import HOME, IMAGE, SESSION, default_session, image, message
from tests.conformance.store import ACME, settle

from agentvm.errors import StoreFailed
from agentvm.model.ids import ContainerId
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.engines.sqlite.database import SqliteDatabase, open_database
from agentvm.storage.sql.container import ContainerStore
from agentvm.storage.sql.store import Store


class Disk(apsw.VFS):
    """The default file system until `refuses` names what to fail: "sync", or "write"."""

    def __init__(self) -> None:
        self.base = apsw.vfs_names()[0]
        self.refuses: str | None = None
        super().__init__("failing", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> "DiskFile":
        return DiskFile(self, name, flags)


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self.disk = disk
        super().__init__(disk.base, name, flags)

    def xSync(self, flags: int) -> None:
        if self.disk.refuses == "sync":
            raise apsw.IOError("the disk is broken")
        super().xSync(flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self.disk.refuses == "write":
            raise apsw.FullError("the disk is full")
        super().xWrite(data, offset)


@pytest.fixture
def disk() -> Generator[Disk]:
    disk = Disk()
    yield disk
    apsw.set_default_vfs(disk.base)
    disk.unregister()


async def attempt(home: ContainerStore, message_id: str, failures: list[StoreFailed], *, size: int = 5) -> None:
    try:
        await home.log(SESSION).record(messages=[message(message_id, "x" * size)], now=2)
    except StoreFailed as error:
        failures.append(error)


@pytest.mark.parametrize("failure", ["sync", "write"])
async def test_a_write_the_disk_refuses_is_not_stored_and_later_ones_are(disk: Disk, tmp_path: Path, failure: str) -> None:
    failures: list[StoreFailed] = []
    with anyio.fail_after(60):
        async with open_store(tmp_path / "a.db") as store:
            home = await settle(store, image())
            await home.log(SESSION).record(messages=[message("before")], now=2)
            disk.refuses = failure
            async with anyio.create_task_group() as tasks:
                for number in range(5):
                    tasks.start_soon(attempt, home, f"lost {number}", failures)
            assert await home.list_messages(SESSION) == (message("before"),)
            disk.refuses = None
            await home.log(SESSION).record(messages=[message("after")], now=2)
            assert await home.list_messages(SESSION) == (message("before"), message("after"))
        async with open_store(tmp_path / "a.db") as store:
            home = store.tenant(ACME).container(HOME)
            assert await home.list_messages(SESSION) == (message("before"), message("after"))
    assert len(failures) == 5
    assert all(isinstance(error.__cause__, apsw.IOError | apsw.FullError) for error in failures)


async def test_a_disk_that_is_full_before_the_commit_stores_nothing_until_it_is_not(disk: Disk, tmp_path: Path) -> None:
    failures: list[StoreFailed] = []

    def keep_little(connection: SqliteConnection) -> None:
        # SQLite then writes to the log before COMMIT, and notices the full disk inside a job.
        connection.raw.pragma("cache_size", 5)

    with anyio.fail_after(60):
        async with open_database(tmp_path / "a.db") as database:
            home = await settle(Store(database), image())
            await database.write(keep_little)
            disk.refuses = "write"
            async with anyio.create_task_group() as tasks:
                for number in range(5):
                    tasks.start_soon(lambda n: attempt(home, f"lost {n}", failures, size=100_000), number)
            disk.refuses = None
            assert await home.list_messages(SESSION) == ()
            await home.log(SESSION).record(messages=[message("after")], now=2)
            assert await home.list_messages(SESSION) == (message("after"),)
    assert len(failures) == 5


async def test_a_job_that_does_not_fit_fails_alone(database: SqliteDatabase, store: Store) -> None:
    failures: list[StoreFailed] = []

    def limit(connection: SqliteConnection) -> None:
        connection.raw.pragma("max_page_count", connection.raw.pragma("page_count") + 10)

    with anyio.fail_after(60):
        home = await settle(store, image())
        await database.write(limit)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(attempt, home, "small", failures)
            tasks.start_soon(lambda: attempt(home, "huge", failures, size=1_000_000))
            tasks.start_soon(attempt, home, "also small", failures)
        assert sorted(each.id for each in await home.list_messages(SESSION)) == ["also small", "small"]
        assert len(failures) == 1
        assert isinstance(failures[0].__cause__, apsw.FullError)
        await database.write(lambda connection: connection.raw.pragma("max_page_count", 1_000_000))
        await attempt(home, "huge", failures, size=1_000_000)
        assert len(await home.list_messages(SESSION)) == 3


async def test_a_deletion_the_disk_refuses_deletes_nothing(disk: Disk, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with open_store(tmp_path / "a.db") as store:
            home = await settle(store, image())
            await home.log(SESSION).record(messages=[message("m1")], now=1)
            disk.refuses = "sync"
            with pytest.raises(StoreFailed):
                await home.delete_image(IMAGE)
            with pytest.raises(StoreFailed):
                await home.add_image(image("new"), default_session(image("new")))
            disk.refuses = None
            assert await home.list_images() == (image(),)
            assert await home.list_messages(SESSION) == (message("m1"),)
            assert await store.tenant(ACME).find_image(IMAGE) == ContainerId("home")


@pytest.mark.parametrize("failure", ["sync", "write"])
async def test_a_database_can_be_left_while_the_disk_fails_and_loses_nothing(disk: Disk, tmp_path: Path, failure: str) -> None:
    with anyio.fail_after(60):
        async with open_store(tmp_path / "a.db") as store:
            home = await settle(store, image())
            await home.log(SESSION).record(messages=[message("before")], now=2)
            disk.refuses = failure
        disk.refuses = None
        async with open_store(tmp_path / "a.db") as store:
            assert await store.tenant(ACME).container(HOME).list_messages(SESSION) == (message("before"),)
