"""Definitions conformance — what the store must do on every engine with definitions that tenants register."""

from agentvm.errors import NotFound, Refused
from agentvm.model.definition import Definition
from agentvm.model.ids import TenantId
from agentvm.storage.sql.store import Store
from tests.conformance.accounts import tenant
from tests.conformance.store import ACME, ODD, RIVAL, raises

BYTES_MAX = 100_000

POET = Definition(
    name="poet", system_prompt="rhyme", tools=("a", "b"), variables={"x": [1.5, None, *ODD]}, temperature=0.5, max_tokens=9
)


async def _add(store: Store, definition: Definition, *, now: int = 1, tenant_id: TenantId = ACME) -> Definition:
    return await store.definitions(tenant_id).add(definition, now, count_max=3, bytes_max=BYTES_MAX)


async def check_a_definition_comes_back_as_it_was(store: Store) -> None:
    assert await store.definitions(ACME).list() == ()
    assert await store.definitions(ACME).get("poet") is None
    assert await _add(store, POET) == POET
    assert await store.definitions(ACME).get("poet") == POET
    assert await store.definitions(ACME).list() == (POET,)


async def check_the_first_of_a_name_stays(store: Store) -> None:
    await _add(store, POET)
    assert await _add(store, Definition(name="poet")) == POET
    assert await store.definitions(ACME).list() == (POET,)


async def check_definitions_are_listed_in_order_of_registration(store: Store) -> None:
    for now, name in enumerate(("c", "a", "b")):
        await _add(store, Definition(name=name), now=now)
    assert [one.name for one in await store.definitions(ACME).list()] == ["c", "a", "b"]


async def check_tenants_do_not_see_each_others_definitions(store: Store) -> None:
    await _add(store, POET)
    assert await store.definitions(RIVAL).list() == ()
    assert await store.definitions(RIVAL).get("poet") is None
    assert await _add(store, Definition(name="poet"), tenant_id=RIVAL) == Definition(name="poet")


async def check_there_are_so_many_definitions_and_no_more(store: Store) -> None:
    for name in ("a", "b", "c"):
        await _add(store, Definition(name=name))
    assert await raises(Refused, _add(store, Definition(name="d")))
    assert await _add(store, Definition(name="a")) == Definition(name="a")
    assert await _add(store, Definition(name="d"), tenant_id=RIVAL) == Definition(name="d")


async def check_definitions_have_so_many_bytes_and_no_more(store: Store) -> None:
    await _add(store, Definition(name="a", system_prompt="x" * (BYTES_MAX * 6 // 10)))
    assert await raises(Refused, _add(store, Definition(name="b", system_prompt="x" * (BYTES_MAX * 6 // 10))))
    assert [one.name for one in await store.definitions(ACME).list()] == ["a"]


async def check_a_deleted_tenant_registers_nothing(store: Store) -> None:
    await store.directory.add_tenant(tenant())
    await store.directory.delete_tenant(ACME, 9)
    assert await raises(NotFound, _add(store, POET))
