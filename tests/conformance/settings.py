"""Settings conformance — what the store must do on every engine with settings that were changed at run time."""

import anyio

from agentvm.errors import Conflict, NotFound
from agentvm.model.ids import TenantId
from agentvm.storage.settings import Change
from agentvm.storage.sql.store import Store
from tests.conformance.accounts import tenant
from tests.conformance.store import ACME, ODD, RIVAL, raises


def change(revision: int = 1, *, steps: object = 5) -> Change:
    return Change(revision=revision, at=revision, actor="root", changes={"limits.steps": steps})


async def check_a_change_comes_back_as_it_was(store: Store) -> None:
    values: dict[str, object] = {"a": None, "b": 1.5, "c": ["x", *ODD], "d": {"sealed": "AAA="}, ODD[0]: True}
    full = Change(revision=1, at=7, actor="u/k", changes=values, request_id="req_1", note="why")
    for scope in (None, ACME):
        mine = store.settings(scope)
        assert await mine.read() == await mine.list() == ()
        await mine.append(full)
        assert await mine.read() == await mine.list() == (full,)
    assert dict(await store.read_settings()) == {None: full, ACME: full}


async def check_revisions_count_without_gaps(store: Store) -> None:
    for scope in (None, ACME):
        mine = store.settings(scope)
        for wrong in (0, 2, -1):
            assert await raises(Conflict, mine.append(change(wrong)))
        await mine.append(change())
        for wrong in (1, 3):
            assert await raises(Conflict, mine.append(change(wrong, steps=6)))
        await mine.append(change(2))
        assert [one.revision for one in await mine.read()] == [1, 2]
        assert [one.changes for one in await mine.read()] == [{"limits.steps": 5}] * 2


async def check_scopes_do_not_see_each_other(store: Store) -> None:
    scopes: tuple[TenantId | None, ...] = (None, ACME, RIVAL)
    for number, scope in enumerate(scopes):
        for revision in range(1, number + 2):
            await store.settings(scope).append(change(revision, steps=number))
    for number, scope in enumerate(scopes):
        found = await store.settings(scope).read()
        assert [one.revision for one in found] == list(range(1, number + 2))
        assert {one.changes["limits.steps"] for one in found} == {number}
    found_all = await store.read_settings()
    for scope in scopes:
        assert tuple(one for of, one in found_all if of == scope) == await store.settings(scope).read()
    assert len(found_all) == 6


async def check_changes_are_listed_by_page_and_read_up_to_one(store: Store) -> None:
    mine = store.settings(None)
    for revision in range(1, 6):
        await mine.append(change(revision))
    assert [one.revision for one in await mine.list(limit=2)] == [5, 4]
    assert [one.revision for one in await mine.list(before=4, limit=2)] == [3, 2]
    assert await mine.list(before=1) == ()
    assert [one.revision for one in await mine.read(until=3)] == [1, 2, 3]
    assert await mine.read(until=0) == ()


async def check_of_those_who_append_at_once_one_wins(store: Store) -> None:
    won: list[int] = []

    async def one(number: int) -> None:
        try:
            await store.settings(ACME).append(change(steps=number))
        except Conflict:
            return
        won.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(one, number)
    found = await store.settings(ACME).read()
    assert [one.changes["limits.steps"] for one in found] == won
    assert len(won) == 1


async def check_a_deleted_tenant_takes_no_more_changes_and_none_of_its_own_count(store: Store) -> None:
    await store.directory.add_tenant(tenant())
    await store.settings(ACME).append(change())
    await store.settings(None).append(change())
    await store.directory.delete_tenant(ACME, 9)
    assert await raises(NotFound, store.settings(ACME).append(change(2)))
    assert [scope for scope, _ in await store.read_settings()] == [None]
    assert await store.settings(ACME).read() == ()
    assert len(await store.settings(None).read()) == 1
