"""Slices of accounts — users, shared containers and resources of many versions go in small commits, also after a crash."""

import io
from pathlib import Path

import pytest
from tests.conformance.accounts import ALICE, key, user
from tests.conformance.erasing import erase
from tests.conformance.records import HOME, image, session
from tests.conformance.resources import publication, put
from tests.conformance.store import ACME, settle
from tests.storage.crashing import CrashingDatabase
from tests.storage.sql.commits import Commits, largest, opened

from agentvm.errors import StoreFailed
from agentvm.errors.erasing import ContainerErasing
from agentvm.model.ids import ContainerId, KeyId, SessionId, UserId
from agentvm.model.resource import ResourceId
from agentvm.storage.attachments import Upload
from agentvm.storage.sql.accounts.users import UserStore
from agentvm.storage.sql.erasing import Erasing
from agentvm.storage.sql.resources import ResourceStore
from agentvm.storage.sql.store import Store


async def add_user(store: Store, count: int) -> None:
    """A user with many keys, containers that are theirs alone, and drafts in the sessions of another."""
    accounts = store.accounts(ACME)
    home = await settle(store, image())
    await accounts.users.add(user(ALICE))
    for number in range(count):
        await accounts.keys.add(key(f"k{number}", user_id=ALICE), b"digest")
        await accounts.users.bind(ALICE, ContainerId(f"home{number}"))
        await store.tenant(ACME).container(ContainerId(f"home{number}")).create(1)
        await home.add_session(session(f"s{number}"))
        await store.tenant(ACME).drafts(ALICE, None).save(SessionId(f"s{number}"), "", "draft", 2)


async def left_of_users(store: Store) -> list[int]:
    tables = ("users", "api_keys", "bindings", "drafts")
    return await store._database.read(
        lambda connection: [connection.fetch(f"SELECT count(*) FROM {table}")[0][0] for table in tables]
    )


async def test_deleting_a_user_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        await add_user(store, 200)
        assert await left_of_users(store) == [1, 200, 200, 200]
        commits.rows.clear()
        assert await store.accounts(ACME).users.delete(ALICE, 9)
        assert largest(commits) <= 200
        assert len(commits.rows) > 15
        assert await left_of_users(store) == [0, 0, 0, 0]
        assert await store.tenant(ACME).list_containers() == (HOME,)
        # The name is free again.
        await store.accounts(ACME).users.add(user("other", ALICE))


@pytest.mark.parametrize("commits_done", [1, 2, 5])
async def test_a_user_that_was_half_deleted_is_gone_at_once_and_erased_after_a_restart(
    tmp_path: Path, commits_done: int
) -> None:
    async with opened(tmp_path) as store:
        await add_user(store, 100)
        crashing = CrashingDatabase(store._database, commits_done)
        with pytest.raises(StoreFailed):
            await UserStore(crashing, ACME).delete(ALICE, 9)
    async with opened(tmp_path) as store:
        accounts = store.accounts(ACME)
        assert await accounts.users.get(ALICE) is None
        assert await accounts.users.find(ALICE) is None
        assert await accounts.users.list() == ()
        assert await accounts.keys.list() == ()
        assert not await store.directory.has_keys()
        assert await store.directory.find_key(KeyId("k99")) is None
        await erase(store)
        assert await left_of_users(store) == [0, 0, 0, 0]
        assert await store.tenant(ACME).list_containers() == (HOME,)


async def test_deleting_a_container_of_many_users_goes_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        await settle(store, image())
        users = store.accounts(ACME).users
        for number in range(1_200):
            await users.add(user(f"u{number}"), [ContainerId(f"own{number}")])
            await users.bind(UserId(f"u{number}"), HOME)
        commits.rows.clear()
        unbound = await store.erasing.delete_container(ACME, HOME, now=9)
        assert unbound is not None
        assert len(set(unbound)) == 1_200
        assert largest(commits) <= 500


async def test_users_of_a_container_that_was_half_deleted_are_unbound_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await settle(store, image())
        users = store.accounts(ACME).users
        await users.add(user(ALICE), [ContainerId("own")])
        await users.bind(ALICE, HOME)
        with pytest.raises(StoreFailed):
            await Erasing(CrashingDatabase(store._database, 1)).delete_container(ACME, HOME, now=9)
    async with opened(tmp_path) as store:
        assert await store.tenant(ACME).list_containers() == ()
        with pytest.raises(ContainerErasing):
            await store.accounts(ACME).users.bind(ALICE, HOME)
        await erase(store)
        assert await store.accounts(ACME).users.bound(ALICE) == ("own",)


async def add_versions(store: Store, count: int) -> ResourceId:
    for number in range(count):
        await put(store, publication("many", f"0.0.{number}"))
    return publication("many").resource_id


@pytest.mark.parametrize("force", [True, False])
async def test_deleting_a_resource_of_many_versions_goes_in_slices(tmp_path: Path, commits: Commits, force: bool) -> None:
    async with opened(tmp_path) as store:
        resource_id = await add_versions(store, 300)
        commits.rows.clear()
        assert await store.resources(ACME).delete(resource_id, force=force, now=9)
        assert len(commits.rows) > 5
        assert largest(commits) <= 400
        assert await store.resources(ACME).count() == 0


async def test_a_resource_that_was_half_deleted_is_out_of_sight_and_goes_with_the_collection(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        resource_id = await add_versions(store, 100)
        with pytest.raises(StoreFailed):
            await ResourceStore(CrashingDatabase(store._database, 2), ACME).delete(resource_id, force=False, now=9)
    async with opened(tmp_path) as store:
        assert await store.resources(ACME).count() == 0
        await store.collect(10, grace=1)
        while await store.collect(20, grace=1):
            pass
        versions = "SELECT count(*) FROM resource_versions"
        assert await store._database.read(lambda connection: connection.fetch(versions)) == [(0,)]


async def test_files_of_a_session_that_is_gone_are_noted_in_slices(tmp_path: Path, commits: Commits) -> None:
    async with opened(tmp_path) as store:
        home = await settle(store, image())
        await home.attachments.add(io.BytesIO(b"x"), Upload(media_type="text/plain"), 1)
        copy = """
        WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < 2500)
        INSERT INTO blobs (digest, size) SELECT 'd' || number, 1 FROM numbers
        """
        own = """
        INSERT INTO attachments (tenant_id, container_id, blob_key, media_type, created_at, unused_since)
        SELECT 'acme', 'home', blob_key, 'text/plain', 1, 0 FROM blobs WHERE digest LIKE 'd%'
        """
        for statement in (copy, own):
            await store._database.write(lambda connection, sql=statement: connection.execute(sql))  # type: ignore[misc]
        commits.rows.clear()
        for now in (10, 11, 12):
            assert await store.collect(now, grace=100) == 0
        assert largest(commits) <= 1_000
        left = "SELECT count(*) FROM attachments WHERE unused_since = 0"
        assert await store._database.read(lambda connection: connection.fetch(left)) == [(0,)]
