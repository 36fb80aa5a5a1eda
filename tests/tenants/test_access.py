import logging
import secrets

import pytest
from msgspec.structs import replace
from tests.tenants.fakes import ACME, NOW, OPERATOR, PEPPER, World
from tests.tenants.test_authentication import refused

from agentvm.errors import ConfigInvalid, Conflict, ContainerForbidden, InvalidInput, NotFound, PermissionDenied
from agentvm.model.ids import DEFAULT_TENANT, KeyId, TenantId, UserId
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.model.secret import Secret
from agentvm.storage.engine import open_store
from agentvm.tenants.access import Access
from agentvm.tenants.keys import make_key

ADMIN = Principal(tenant_id=ACME, key_id=KeyId("admin"), permissions=MEMBER | {"keys:admin"})


async def test_a_new_key_is_recorded_without_itself() -> None:
    world = World()
    key, text = await world.key(name="ci", expires_at=NOW + 5, granter=ADMIN)
    assert (key.name, key.created_by, key.created_at, key.expires_at) == ("ci", "admin", NOW, NOW + 5)
    assert set(key.permissions) == MEMBER
    assert text.startswith(f"avm_{key.key_id}_")
    everything = repr((world.store.keys, key, world.access))
    assert text.split("_")[2] not in everything


async def test_a_key_is_not_made_for_what_is_not_there() -> None:
    world = World()
    with pytest.raises(NotFound, match="Tenant not found"):
        await world.access.issue(TenantId("gone"), name="k", granter=OPERATOR)
    with pytest.raises(NotFound, match="User not found"):
        await world.key(user_id=UserId("gone"))
    with pytest.raises(InvalidInput, match="past"):
        await world.key(expires_at=NOW)
    with pytest.raises(InvalidInput, match="did you mean agent:use"):
        await world.key(permissions=["agents:use"])
    assert world.store.keys == {}


async def test_a_key_of_another_tenant_is_made_only_by_the_operator() -> None:
    world = World()
    other = world.add_tenant(TenantId("ten_b"), "b").tenant_id
    with pytest.raises(NotFound, match="Tenant not found"):
        await world.access.issue(other, name="k", granter=ADMIN)
    assert await world.access.issue(other, name="k", granter=OPERATOR)


async def test_nobody_makes_a_key_that_may_more_than_themselves() -> None:
    world = World()
    with pytest.raises(PermissionDenied, match="tenants:admin"):
        await world.key(granter=ADMIN, permissions=["tenants:admin"])
    narrow = Principal(tenant_id=ACME, permissions=EVERYTHING, containers=("user-bob",))
    with pytest.raises(ContainerForbidden):
        await world.key(granter=narrow)
    alice = world.add_user("alice")
    with pytest.raises(ContainerForbidden, match="user-alice"):
        await world.key(granter=narrow, user_id=alice.user_id)
    bob = world.add_user("bob")
    assert await world.key(granter=narrow, user_id=bob.user_id)
    assert await world.key(granter=narrow, containers=["user-bob"])


async def test_a_revoked_key_is_refused_at_once_and_the_server_is_told_whose_sockets_to_close() -> None:
    world = World()
    key, text = await world.key()
    _, other = await world.key()
    gone, stays = await world.access.authenticate(text), await world.access.authenticate(other)
    assert await world.access.revoke(ACME, key.key_id)
    await refused(world, text, "revoked")
    ((named, why),) = world.ended
    assert (named(gone), named(stays), why) == (True, False, "revoked")
    await world.access.authenticate(other)


async def test_a_key_is_revoked_only_in_its_own_tenant() -> None:
    world = World()
    key, text = await world.key()
    assert not await world.access.revoke(TenantId("ten_b"), key.key_id)
    await world.access.authenticate(text)
    assert world.ended == []


async def test_a_rotated_key_has_the_same_rights_and_the_old_one_ends_after_the_grace() -> None:
    world = World()
    old, text = await world.key(containers=["team-*"], permissions=["agent:use"])
    await world.access.authenticate(text)
    new, fresh = await world.access.rotate(ACME, old.key_id, 60, granter=OPERATOR)
    assert (new.permissions, new.containers, new.name, new.expires_at) == (old.permissions, old.containers, old.name, None)
    assert (new.created_by, new.last_used_at) == ("operator", None)
    world.clock.now += 59_999
    assert (await world.access.authenticate(text)).expires_at == NOW + 60_000
    world.clock.now += 1
    await refused(world, text, "expired")
    await world.access.authenticate(fresh.reveal())


async def test_sockets_that_were_open_before_a_rotation_are_closed_when_the_grace_is_over() -> None:
    world = World()
    key, text = await world.key()
    before = await world.access.authenticate(text)
    await world.access.rotate(ACME, key.key_id, 60, granter=OPERATOR)
    world.clock.now += 59_999
    await world.access.flush_used()
    assert world.ended == []
    world.clock.now += 1
    await world.access.flush_used()
    await world.access.flush_used()
    ((named, _),) = world.ended
    assert named(before)


async def test_a_rotation_without_grace_ends_the_old_key_at_once() -> None:
    world = World()
    key, text = await world.key()
    await world.access.authenticate(text)
    _, fresh = await world.access.rotate(ACME, key.key_id, 0, granter=OPERATOR)
    await refused(world, text, "revoked")
    assert len(world.ended) == 1
    await world.access.authenticate(fresh.reveal())


async def test_a_key_that_ended_is_not_rotated() -> None:
    world = World()
    revoked, _ = await world.key()
    await world.access.revoke(ACME, revoked.key_id)
    expired, _ = await world.key(expires_at=NOW + 1)
    world.clock.now += 1
    for key_id in (revoked.key_id, expired.key_id, KeyId("gone")):
        with pytest.raises(NotFound):
            await world.access.rotate(ACME, key_id, 60, granter=OPERATOR)
    for grace in (-1, 10**9):
        with pytest.raises(InvalidInput, match="graceSeconds"):
            await world.access.rotate(ACME, revoked.key_id, grace, granter=OPERATOR)


async def test_nobody_gets_more_rights_by_rotating_a_stronger_key() -> None:
    world = World()
    strong, text = await world.key(permissions=EVERYTHING)
    with pytest.raises(PermissionDenied):
        await world.access.rotate(ACME, strong.key_id, 0, granter=ADMIN)
    await world.access.authenticate(text)
    assert len(world.store.keys) == 1


async def test_a_server_without_keys_gets_the_default_tenant_and_one_key() -> None:
    world = World()
    shown = await world.access.bootstrap(None)
    assert shown is not None
    owner = await world.access.authenticate(shown.reveal())
    assert (owner.tenant_id, owner.permissions, owner.containers) == (DEFAULT_TENANT, EVERYTHING, None)
    assert world.store.tenants[DEFAULT_TENANT].slug == "default"
    assert await world.access.bootstrap(None) is None
    assert len(world.store.keys) == 1


async def test_the_operators_own_key_is_installed_once_and_not_shown() -> None:
    world = World()
    given = make_key(secrets.randbits)[1]
    for _ in range(2):
        assert await world.access.bootstrap(given) is None
    assert len(world.store.keys) == 1
    assert (await world.access.authenticate(given.reveal())).permissions == EVERYTHING
    assert await world.access.bootstrap(None) is None


async def test_a_new_admin_key_takes_the_place_of_the_former_and_of_no_other() -> None:
    world = World()
    _, own = await world.key()
    former, later = make_key(secrets.randbits)[1], make_key(secrets.randbits)[1]
    await world.access.bootstrap(former)
    await world.access.bootstrap(later)
    await refused(world, former.reveal(), "revoked")
    await world.access.authenticate(later.reveal())
    await world.access.authenticate(own)
    with pytest.raises(ConfigInvalid, match="revoked"):
        await world.access.bootstrap(former)


@pytest.mark.parametrize("text", ["", "hunter2", "x" * 56])
async def test_what_is_no_key_is_not_installed_and_the_message_does_not_repeat_it(text: str) -> None:
    world = World()
    with pytest.raises(ConfigInvalid, match="avm key new") as caught:
        await world.access.bootstrap(Secret(text))
    assert not text or text not in str(caught.value)
    assert world.store.keys == {}


async def test_a_tenants_own_key_does_not_become_the_operators() -> None:
    world = World()
    _, text = await world.key()
    with pytest.raises(ConfigInvalid, match="not an operator's key"):
        await world.access.bootstrap(Secret(text))


async def test_another_server_key_is_noticed_at_the_start() -> None:
    world = World()
    given = make_key(secrets.randbits)[1]
    await world.access.bootstrap(given)
    moved = Access(world.store, pepper=PEPPER[::-1] + b"other", clock=world.clock)
    with pytest.raises(ConfigInvalid, match="another server key"):
        await moved.bootstrap(given)


async def test_no_key_that_is_made_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    with caplog.at_level(logging.DEBUG, logger="agentvm"):
        first = await world.access.bootstrap(None)
        given = make_key(secrets.randbits)[1]
        await world.access.bootstrap(given)
        key, text = await world.key()
        _, fresh = await world.access.rotate(ACME, key.key_id, 5, granter=OPERATOR)
    assert first is not None
    everything = repr([vars(record) for record in caplog.records])
    assert "operator_key_added" in everything
    for secret in (first.reveal(), given.reveal(), text, fresh.reveal()):
        assert secret.split("_")[2] not in everything


async def test_a_user_renews_a_key_of_theirs_that_has_patterns() -> None:
    world = World()
    alice = world.add_user()
    key, text = await world.key(user_id=alice.user_id, containers=["user-*"])
    granter = await world.access.authenticate(text)
    _, fresh = await world.access.rotate(ACME, key.key_id, 0, granter=granter)
    assert (await world.access.authenticate(fresh.reveal())).containers == ("user-alice",)


async def test_a_user_who_does_not_administer_the_tenant_makes_keys_for_themselves_only() -> None:
    world = World()
    alice, bob = world.add_user("alice", role="admin"), world.add_user("bob")
    granter = Principal(tenant_id=ACME, user_id=alice.user_id, permissions=MEMBER | {"keys:admin"})
    for user_id in (None, bob.user_id):
        with pytest.raises(PermissionDenied, match="tenants:admin"):
            await world.key(granter=granter, user_id=user_id)
    assert await world.key(granter=granter, user_id=alice.user_id)
    assert await world.key(granter=replace(granter, permissions=EVERYTHING), user_id=bob.user_id)


@pytest.mark.parametrize(("wanted", "given"), [(None, NOW + 60), (NOW + 90, NOW + 60), (NOW + 30, NOW + 30)])
async def test_a_key_does_not_outlive_the_credentials_it_was_made_with(wanted: int | None, given: int) -> None:
    world = World()
    key, _ = await world.key(granter=replace(ADMIN, expires_at=NOW + 60), expires_at=wanted)
    assert key.expires_at == given
    lasting, _ = await world.key()
    renewed, _ = await world.access.rotate(ACME, lasting.key_id, 0, granter=replace(ADMIN, expires_at=NOW + 60))
    assert renewed.expires_at == NOW + 60


async def test_the_operators_last_key_cannot_be_revoked() -> None:
    async with open_store(None) as store:
        access = Access(store, pepper=b"p" * 32, clock=lambda: 1_000)
        first = await access.bootstrap(None)
        assert first is not None
        principal = await access.authenticate(first.reveal())
        assert principal.key_id is not None
        with pytest.raises(Conflict, match="last key"):
            await access.revoke(DEFAULT_TENANT, principal.key_id)
        await access.issue(DEFAULT_TENANT, name="second", granter=principal, permissions=EVERYTHING)
        assert await access.revoke(DEFAULT_TENANT, principal.key_id)
