from pathlib import Path

import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.support.steps import Steps

from agentvm.errors import ContainerForbidden
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.storage.base import ReaderPlace
from agentvm.storage.engine import open_store
from agentvm.tenants.scoped_store import ScopedStore

BOUND = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING, containers=("user-alice", "team-*"))


async def test_only_what_is_within_reach_is_found() -> None:
    async with open_desk() as desk:
        own, team, foreign = [await desk.create_image(name) for name in ("user-alice", "team-a", "user-bob")]
        reach = ScopedStore(desk.vm.tenancy.store.tenant(DEFAULT_TENANT), BOUND)
        assert await reach.list_containers() == ("user-alice", "team-a")
        for record, found in ((own, "user-alice"), (team, "team-a"), (foreign, None)):
            assert await reach.find_image(ImageId(record["imageId"])) == found
            assert await reach.find_session(SessionId(record["sessionId"])) == found
        assert await reach.container(ContainerId("team-a")).get() is not None
        for name in ("user-bob", "nobody", "user-alice2", "TEAM-a", "team"):
            with pytest.raises(ContainerForbidden):
                reach.container(ContainerId(name))


async def test_readers_of_different_users_do_not_share_a_client_id() -> None:
    async with open_store(None) as store:
        tenant = store.tenant(DEFAULT_TENANT)
        alice, bob = (
            ScopedStore(tenant, Principal(tenant_id=DEFAULT_TENANT, user_id=UserId(name))) for name in ("alice", "bob")
        )
        await alice.save_reader("client-1", {})
        session = SessionId("s")
        await alice.save_reader("client-1", {session: ReaderPlace(3, 1)})
        assert await bob.take_reader("client-1") == {}


async def test_who_names_no_container_means_the_one_that_is_bound() -> None:
    async with open_desk() as desk:
        await desk.create_image("user-alice")
        await desk.create_image("user-bob")
        alice = Desk(desk.vm, desk.vm.attach(BOUND))
        assert [record["containerId"] for record in (await alice.ask("image_list"))["records"]] == ["user-alice"]


async def test_a_foreign_container_is_refused_whether_it_exists_or_not() -> None:
    async with open_desk() as desk:
        await desk.create_image("user-bob")
        alice = Desk(desk.vm, desk.vm.attach(BOUND))
        for command in ("container_create", "container_get", "image_create", "image_list", "agent_list", "agent_destroy_all"):
            codes = [(await alice.ask(command, containerId=name))["errorCode"] for name in ("user-bob", "nobody")]
            assert codes == ["container_forbidden"] * 2
        assert (await alice.ask("container_create", containerId="team-new"))["containerId"] == "team-new"


async def test_names_and_patterns_find_their_containers_oldest_first_and_page_by_page(tmp_path: Path) -> None:
    async with open_store(tmp_path / "a.db") as store:
        tenant = store.tenant(DEFAULT_TENANT)
        for number in range(30):
            await tenant.container(ContainerId(f"user-{number}")).create(number)
        await tenant.container(ContainerId("team-a")).create(100)

        def reaching(*patterns: str) -> ScopedStore:
            return ScopedStore(tenant, Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING, containers=patterns))

        own = ("user-7", "user-8", "team-a")
        assert await reaching("team-*", "user-[78]").list_containers() == own
        assert await reaching("team-*", "user-[78]").next_containers("", 2) == ("team-a",)
        assert await reaching("team-a", "user-7", "user-8").next_containers("team-a", 1) == ("user-7",)
        assert await reaching("*-a", "user-7").list_containers() == ("user-7", "team-a")
        assert await reaching("nobody", "user").list_containers() == ()
        for patterns in (("team-a", "user-8", "user-7"), ("team-?", "user-[78]")):
            pages: list[ContainerId] = []
            cursor: str | None = None
            while not pages or cursor is not None:
                page, cursor = await reaching(*patterns).page_containers(cursor, 2)
                pages += page
            assert tuple(pages) == own


@pytest.mark.usefixtures("sqlite_file")
async def test_a_user_of_a_large_tenant_reads_as_much_as_one_of_a_small_tenant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = Steps(monkeypatch)
    bound = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING, containers=("user-7",))
    needed: list[int] = []
    for users in (10, 1_000):
        async with open_store(tmp_path / f"{users}.db") as store:
            reach = ScopedStore(store.tenant(DEFAULT_TENANT), bound)
            for number in range(users):
                await store.tenant(DEFAULT_TENANT).container(ContainerId(f"user-{number}")).create(number)
            before = steps.taken
            assert await reach.list_containers() == await reach.next_containers("", 100) == ("user-7",)
            assert await reach.page_containers(None, 100) == (("user-7",), None)
            needed.append(steps.taken - before)
    assert needed[0] == needed[1] > 0
