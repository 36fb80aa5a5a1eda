from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace
from tests.operations.fixtures import Desk, open_desk
from tests.tenants.fakes import ACME, World
from tests.tenants.test_authentication import refused

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.scripted import Pause, ScriptedDriver, reply
from agentvm.errors import Conflict, InvalidInput, Refused
from agentvm.model.account import Tenant, User
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.tenants.people import STATUS_CACHE_MS


async def someone() -> tuple[World, User, str, Principal, Principal]:
    """Alice, her key, and the principals of her and of the tenant; both keys are remembered."""
    world = World()
    alice = world.add_user()
    _, hers = await world.key(user_id=alice.user_id)
    _, tenants = await world.key()
    return world, alice, hers, await world.access.authenticate(hers), await world.access.authenticate(tenants)


async def test_a_suspended_tenant_is_out_at_once_and_back_when_it_is_active() -> None:
    world, _, text, alice, tenants = await someone()
    assert await world.people.change_tenant(ACME, partial(replace, status="suspended"))
    await refused(world, text, "suspended")
    ((named, why),) = world.ended
    assert (named(alice), named(tenants), why) == (True, True, "suspended")
    assert await world.people.change_tenant(ACME, partial(replace, status="active"))
    await world.access.authenticate(text)


async def test_renaming_a_tenant_disturbs_nobody() -> None:
    world, *_ = await someone()
    assert await world.people.change_tenant(ACME, partial(replace, name="ACME Ltd"))
    assert world.ended == []


async def test_a_deleted_tenant_is_out_at_once() -> None:
    world, _, text, alice, _ = await someone()
    assert await world.people.delete_tenant(ACME)
    await refused(world, text)
    assert world.ended[0][0](alice)
    assert not await world.people.delete_tenant(ACME)


async def test_the_tenant_of_the_operator_stays() -> None:
    world = World()
    await world.access.bootstrap(None)
    with pytest.raises(Conflict):
        await world.people.delete_tenant(DEFAULT_TENANT)
    with pytest.raises(Conflict):
        await world.people.change_tenant(DEFAULT_TENANT, partial(replace, status="suspended"))
    assert await world.people.change_tenant(DEFAULT_TENANT, partial(replace, name="Mine"))


async def test_a_suspended_user_is_out_at_once_and_the_rest_of_the_tenant_is_not() -> None:
    world, user, text, alice, tenants = await someone()
    assert await world.people.change_user(ACME, user.user_id, partial(replace, status="suspended"))
    await refused(world, text, "suspended")
    ((named, why),) = world.ended
    assert (named(alice), named(tenants), why) == (True, False, "suspended")


async def test_another_role_holds_from_the_next_request_on() -> None:
    world, user, text, alice, _ = await someone()
    assert await world.people.change_user(ACME, user.user_id, partial(replace, role="viewer"))
    assert all(permission.endswith(":read") for permission in (await world.access.authenticate(text)).permissions)
    assert world.ended[0][0](alice)


async def test_another_display_name_disturbs_nobody() -> None:
    world, user, *_ = await someone()
    assert await world.people.change_user(ACME, user.user_id, partial(replace, display_name="Alice"))
    assert world.ended == []


async def test_a_deleted_user_is_out_at_once() -> None:
    world, user, text, alice, _ = await someone()
    assert await world.people.delete_user(ACME, user.user_id)
    # Nothing is left of the key, so nobody knows that there was one.
    await refused(world, text)
    assert world.ended[0][0](alice)
    assert not await world.people.delete_user(ACME, user.user_id)
    assert not await world.people.change_user(ACME, user.user_id, partial(replace, role="viewer"))


async def test_bindings_hold_from_the_next_request_on() -> None:
    world, user, text, alice, _ = await someone()
    assert await world.people.bind(ACME, user.user_id, ContainerId("shared"))
    assert (await world.access.authenticate(text)).containers == ("user-alice", "shared")
    assert world.ended == []
    assert await world.people.unbind(ACME, user.user_id, ContainerId("shared"))
    assert (await world.access.authenticate(text)).containers == ("user-alice",)
    assert world.ended[0][0](alice)
    assert not await world.people.unbind(ACME, user.user_id, ContainerId("shared"))


async def test_what_is_no_container_is_not_bound() -> None:
    world, user, *_ = await someone()
    with pytest.raises(InvalidInput):
        await world.people.bind(ACME, user.user_id, ContainerId("../etc"))


def stops(world: World) -> list[tuple[str, frozenset[str] | None]]:
    told: list[tuple[str, frozenset[str] | None]] = []

    async def stop(tenant_id: TenantId, containers: frozenset[ContainerId] | None) -> None:
        told.append((tenant_id, containers))

    world.people.stop = stop
    return told


async def test_what_runs_for_a_tenant_is_stopped_when_it_is_suspended_or_deleted() -> None:
    world, *_ = await someone()
    told = stops(world)
    assert await world.people.change_tenant(ACME, partial(replace, name="Other"))
    assert told == []
    assert await world.people.change_tenant(ACME, partial(replace, status="suspended"))
    assert await world.people.delete_tenant(ACME)
    assert not await world.people.delete_tenant(ACME)
    assert told == [(ACME, None)] * 2


async def test_what_runs_for_a_user_is_stopped_in_the_containers_that_are_only_theirs() -> None:
    world, user, *_ = await someone()
    told, bob = stops(world), world.add_user("bob")
    for who in (user, bob):
        await world.people.bind(ACME, who.user_id, ContainerId("shared"))
    assert await world.people.change_user(ACME, user.user_id, partial(replace, role="viewer"))
    assert told == []
    assert await world.people.change_user(ACME, user.user_id, partial(replace, status="suspended"))
    assert await world.people.delete_user(ACME, bob.user_id)
    assert told == [(ACME, frozenset({"user-alice"})), (ACME, frozenset({"user-bob"}))]


async def test_nothing_is_done_for_those_who_are_suspended_or_deleted() -> None:
    world, user, *_ = await someone()
    standing = world.people.standing

    async def is_served(tenant_id: TenantId = ACME, user_id: UserId | None = None) -> bool:
        try:
            await standing.check(tenant_id, user_id)
        except Refused:
            return False
        return True

    assert await is_served()
    assert await is_served(user_id=user.user_id)
    assert await is_served(DEFAULT_TENANT), "who needs no key, also before there is an entry for them"
    assert not await is_served(TenantId("gone"))
    assert not await is_served(user_id=UserId("gone"))
    await world.people.change_user(ACME, user.user_id, partial(replace, status="suspended"))
    assert not await is_served(user_id=user.user_id)
    await world.people.change_user(ACME, user.user_id, partial(replace, status="active"))
    assert await is_served(user_id=user.user_id)
    await world.people.change_tenant(ACME, partial(replace, status="suspended"))
    assert not await is_served()


async def test_what_another_process_changes_is_noticed_within_five_seconds() -> None:
    world = World()
    standing = world.people.standing
    await standing.check(ACME, None)
    del world.store.tenants[ACME]
    world.clock.now += STATUS_CACHE_MS - 1
    await standing.check(ACME, None)
    world.clock.now += 1
    with pytest.raises(Refused, match="suspended or deleted"):
        await standing.check(ACME, None)


async def test_what_is_read_while_it_changes_is_not_remembered() -> None:
    world = World()
    arrived, go_on = world.store.hold("get_tenant")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.people.standing.check, ACME, None)
            await arrived.wait()
            await world.people.change_tenant(ACME, partial(replace, name="Other"))
            go_on.set()
    world.store.asked.clear()
    await world.people.standing.check(ACME, None)
    assert world.store.asked == ["get_tenant"]


def acme() -> Tenant:
    return Tenant(tenant_id=ACME, slug="acme", name="Acme", created_at=1, updated_at=1)


@pytest.mark.parametrize("deleted", [True, False])
async def test_turns_of_a_tenant_that_is_gone_end_and_nothing_more_is_spent(deleted: bool) -> None:
    pause = anyio.Event()
    driver = ScriptedDriver(lambda prompt: [Pause(pause), *reply("hi")])
    async with open_desk(driver) as desk:
        people = desk.vm.tenancy.people
        await desk.vm.tenancy.store.directory.add_tenant(acme())
        theirs, image = desk.another(ACME), await desk.create_image()
        their_image = await theirs.create_image()
        for one, about in ((desk, image), (theirs, their_image), (theirs, their_image)):
            await one.ask("message_send", imageId=about["imageId"], content="q")
        with anyio.fail_after(60):
            while len(driver.prompts) < 2:
                await anyio.lowlevel.checkpoint()
            if deleted:
                await people.delete_tenant(ACME)
            else:
                await people.change_tenant(ACME, partial(replace, status="suspended"))
        assert [agent.tenant_id for agent in desk.vm.runtime.roster] == [DEFAULT_TENANT]
        pause.set()
        await desk.hear("turn_response")
        assert len(driver.prompts) == 2


async def test_turns_that_are_resumed_for_a_tenant_that_is_gone_end_without_a_call(tmp_path: Path) -> None:
    config, pause = ServerConfig(system=SystemSettings(data_dir=str(tmp_path))), anyio.Event()
    first = ScriptedDriver(lambda prompt: [Pause(pause), *reply("hi")])
    async with open_agentvm(config, drivers={"scripted": first}) as vm:
        await vm.tenancy.store.directory.add_tenant(acme())
        desk = Desk(vm, vm.attach(Principal(tenant_id=ACME, permissions=EVERYTHING)))
        image = await desk.create_image()
        for _ in range(3):
            await desk.ask("message_send", imageId=image["imageId"], content="q")
        # As another process would: nobody here is told.
        await vm.tenancy.store.directory.delete_tenant(ACME, 2)
    second = ScriptedDriver()
    async with open_agentvm(config, drivers={"scripted": second}) as vm:
        with anyio.fail_after(60):
            # Its turns end, and then it is erased.
            while await vm.tenancy.store.list_unfinished():
                await anyio.lowlevel.checkpoint()
        assert second.prompts == []


async def test_what_is_deleted_is_told_to_who_erases_it() -> None:
    world, told = World(), list[str]()
    world.people.erase = lambda: told.append("erase")
    alice = world.add_user()
    assert await world.people.delete_user(ACME, alice.user_id)
    assert not await world.people.delete_user(ACME, alice.user_id)
    assert await world.people.delete_tenant(ACME)
    assert told == ["erase", "erase"]
