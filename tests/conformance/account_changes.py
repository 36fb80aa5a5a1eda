"""Account changes conformance — what several callers change at once."""

from functools import partial

import anyio
from msgspec import structs

from agentvm.errors import Conflict
from agentvm.model.ids import KeyId, UserId
from agentvm.storage.sql.store import Store
from tests.conformance.accounts import ALICE, BOB, key, tenant, user
from tests.conformance.store import ACME


async def check_changes_of_one_user_at_once_are_all_kept(store: Store) -> None:
    users = store.accounts(ACME).users
    await users.add(user())
    async with anyio.create_task_group() as tasks:
        for fields in ({"status": "suspended"}, {"display_name": "Al"}, {"role": "viewer"}):
            tasks.start_soon(partial(users.change, ALICE, partial(structs.replace, **fields)))
    after = await users.get(ALICE)
    assert after is not None
    assert (after.status, after.display_name, after.role) == ("suspended", "Al", "viewer")


async def check_changes_of_one_tenant_at_once_are_all_kept(store: Store) -> None:
    await store.directory.add_tenant(tenant())
    async with anyio.create_task_group() as tasks:
        for fields in ({"status": "suspended"}, {"description": "d"}, {"plan": "p"}):
            tasks.start_soon(store.directory.change_tenant, ACME, partial(structs.replace, **fields))
    after = await store.directory.get_tenant(ACME)
    assert after is not None
    assert (after.status, after.description, after.plan) == ("suspended", "d", "p")


async def check_one_owner_stays_when_all_are_ended_at_once(store: Store) -> None:
    users, refused = store.accounts(ACME).users, list[str]()
    for name in (ALICE, BOB):
        await users.add(structs.replace(user(name), role="owner"))

    async def end(name: str, *, deleted: bool) -> None:
        try:
            if deleted:
                await users.delete(UserId(name), 9, keeps_owner=True)
            else:
                await users.change(UserId(name), partial(structs.replace, role="member"), keeps_owner=True)
        except Conflict as error:
            refused.append(str(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(end, ALICE, deleted=False))
        tasks.start_soon(partial(end, BOB, deleted=True))
    (owner,) = [one for one in await users.list() if one.role == "owner"]
    assert len(refused) == 1
    assert await users.is_last_owner(owner)
    assert await users.change(owner.user_id, partial(structs.replace, role="member"))


async def check_a_key_is_rotated_once(store: Store) -> None:
    keys, rotated = store.accounts(ACME).keys, list[bool]()
    await keys.add(key(), b"d")

    async def rotate(name: str, ends_at: int | None) -> None:
        rotated.append(await keys.rotate(KeyId("k1"), key(name), b"d", now=5, ends_at=ends_at))

    async with anyio.create_task_group() as tasks:
        for name in ("k2", "k3", "k4"):
            tasks.start_soon(rotate, name, None)
    assert sorted(rotated) == [False, False, True]
    assert len(await keys.list()) == 2
    old = await keys.get(KeyId("k1"))
    assert old is not None
    assert old.revoked_at == 5
    assert not await keys.rotate(KeyId("gone"), key("k5"), b"d", now=5, ends_at=None)


async def check_a_rotated_key_may_be_valid_for_a_while(store: Store) -> None:
    keys = store.accounts(ACME).keys
    await keys.add(key(), b"d")
    assert await keys.rotate(KeyId("k1"), key("k2"), b"d", now=5, ends_at=8)
    old = await keys.get(KeyId("k1"))
    assert old is not None
    assert (old.revoked_at, old.expires_at) == (None, 8)
    assert not await keys.rotate(KeyId("k1"), key("k3"), b"d", now=8, ends_at=None)
