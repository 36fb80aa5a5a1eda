import anyio
import pytest
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import AccessDenied, ContainerForbidden, ContainerNotFound
from agentvm.model.account import User
from agentvm.model.ids import ContainerId, UserId
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.sessions.containers import Containers

TEAM = ContainerId("team")


def containers_of(desk: Desk, principal: Principal) -> Containers:
    return Containers(desk.vm.workspace(principal))


async def bind(desk: Desk, name: str, *containers: ContainerId) -> UserId:
    user_id = UserId(f"usr_{name}")
    user = User(user_id=user_id, tenant_id=desk.peer.tenant_id, external_id=name, role="member", created_at=1, updated_at=1)
    await desk.vm.tenancy.access.add_user(user)
    for container_id in containers:
        await desk.vm.tenancy.people.bind(desk.peer.tenant_id, user_id, container_id)
    return user_id


def as_user(desk: Desk, user_id: UserId, permissions: frozenset[str] = MEMBER) -> Principal:
    return Principal(tenant_id=desk.peer.tenant_id, user_id=user_id, permissions=permissions, containers=(TEAM,))


async def test_a_user_deletes_what_is_theirs_alone_and_an_administrator_what_others_have_too() -> None:
    async with open_desk() as desk:
        await desk.create_image(TEAM)
        alice = await bind(desk, "alice", TEAM)
        bob = await bind(desk, "bob", TEAM)
        with pytest.raises(AccessDenied):
            await containers_of(desk, as_user(desk, alice)).delete(TEAM)
        await containers_of(desk, as_user(desk, alice, EVERYTHING)).delete(TEAM)
        users = desk.peer.workspace.accounts.users
        assert (await users.bound(alice), await users.bound(bob)) == (("user-alice",), ("user-bob",))


async def test_their_home_is_theirs_to_clear_and_to_begin_again() -> None:
    async with open_desk() as desk:
        alice, home = await bind(desk, "alice"), ContainerId("user-alice")
        await desk.create_image(home)
        principal = Principal(tenant_id=desk.peer.tenant_id, user_id=alice, permissions=MEMBER, containers=(home,))
        await containers_of(desk, principal).delete(home)
        assert await desk.peer.workspace.accounts.users.bound(alice) == (home,)


async def test_what_is_out_of_reach_is_refused_whether_it_is_there_or_not() -> None:
    async with open_desk() as desk:
        await desk.create_image("c1")
        alice = await bind(desk, "alice")
        containers = containers_of(desk, as_user(desk, alice))
        for container_id in (ContainerId("c1"), ContainerId("nowhere")):
            for ask in (containers.get, containers.weigh, containers.delete):
                with pytest.raises(ContainerForbidden):
                    await ask(container_id)
        for ask in (containers.get, containers.weigh, containers.delete):
            with pytest.raises(ContainerNotFound):
                await ask(TEAM)


async def test_a_turn_that_runs_is_stopped_first_and_nothing_is_taken_meanwhile() -> None:
    pause = anyio.Event()
    async with open_desk(ScriptedDriver(lambda prompt: [Pause(pause), *reply("never")])) as desk:
        image = await desk.create_image("c1")
        await desk.ask("message_send", imageId=image["imageId"], content="hi")
        await desk.hear("turn_request")
        await desk.ask("container_delete", containerId="c1")
        ends = [event for event in await desk.hear("turn_response") if event["type"] == "turn_response"]
        assert [event["data"]["outcome"] for event in ends] == ["interrupted"]
        assert desk.types().index("turn_response") < desk.types().index("container_deleted")
        assert (await desk.ask("message_send", imageId=image["imageId"], content="again"))["errorCode"] == "image_not_found"
        assert list(desk.vm.runtime.roster) == []
