import pytest
from tests.operations.fixtures import Desk, open_desk

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
