import pytest
from msgspec.structs import replace
from tests.tenants.fakes import ACME, World
from tests.tenants.test_authentication import refused

from agentvm.errors import Conflict, InvalidInput
from agentvm.model.account import User
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.principal import Principal


async def someone() -> tuple[World, User, str, Principal, Principal]:
    """Alice, her key, and the principals of her and of the tenant; both keys are remembered."""
    world = World()
    alice = world.add_user()
    _, hers = await world.key(user_id=alice.user_id)
    _, tenants = await world.key()
    return world, alice, hers, await world.access.authenticate(hers), await world.access.authenticate(tenants)


async def test_a_suspended_tenant_is_out_at_once_and_back_when_it_is_active() -> None:
    world, _, text, alice, tenants = await someone()
    acme = world.store.tenants[ACME]
    assert await world.people.update_tenant(replace(acme, status="suspended"))
    await refused(world, text)
    ((named, why),) = world.ended
    assert (named(alice), named(tenants), why) == (True, True, "suspended")
    assert await world.people.update_tenant(acme)
    await world.access.authenticate(text)


async def test_renaming_a_tenant_disturbs_nobody() -> None:
    world, *_ = await someone()
    assert await world.people.update_tenant(replace(world.store.tenants[ACME], name="ACME Ltd"))
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
    default = world.store.tenants[DEFAULT_TENANT]
    with pytest.raises(Conflict):
        await world.people.delete_tenant(DEFAULT_TENANT)
    with pytest.raises(Conflict):
        await world.people.update_tenant(replace(default, status="suspended"))
    assert await world.people.update_tenant(replace(default, name="Mine"))


async def test_a_suspended_user_is_out_at_once_and_the_rest_of_the_tenant_is_not() -> None:
    world, user, text, alice, tenants = await someone()
    assert await world.people.update_user(replace(user, status="suspended"))
    await refused(world, text)
    ((named, why),) = world.ended
    assert (named(alice), named(tenants), why) == (True, False, "suspended")


async def test_another_role_holds_from_the_next_request_on() -> None:
    world, user, text, alice, _ = await someone()
    assert await world.people.update_user(replace(user, role="viewer"))
    assert all(permission.endswith(":read") for permission in (await world.access.authenticate(text)).permissions)
    assert world.ended[0][0](alice)


async def test_another_display_name_disturbs_nobody() -> None:
    world, user, *_ = await someone()
    assert await world.people.update_user(replace(user, display_name="Alice"))
    assert world.ended == []


async def test_a_deleted_user_is_out_at_once() -> None:
    world, user, text, alice, _ = await someone()
    assert await world.people.delete_user(ACME, user.user_id)
    await refused(world, text)
    assert world.ended[0][0](alice)
    assert not await world.people.delete_user(ACME, user.user_id)
    assert not await world.people.update_user(user)


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
