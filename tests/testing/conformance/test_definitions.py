"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable

import anyio
import msgspec
import pytest

from agentvm.errors import NotFound
from agentvm.model.definition import Definition
from agentvm.model.ids import TenantId
from agentvm.storage.engine import open_store
from agentvm.storage.sql.definitions import DefinitionStore
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import definitions as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


class Toolless(DefinitionStore):
    async def get(self, name: str) -> Definition | None:
        found = await super().get(name)
        return None if found is None else msgspec.structs.replace(found, tools=None)


class Echoing(DefinitionStore):
    async def add(self, definition: Definition, now: int, *, count_max: int, bytes_max: int) -> Definition:
        await super().add(definition, now, count_max=count_max, bytes_max=bytes_max)
        return definition


class Timeless(DefinitionStore):
    async def add(self, definition: Definition, now: int, *, count_max: int, bytes_max: int) -> Definition:
        return await super().add(definition, 1, count_max=count_max, bytes_max=bytes_max)


class Blind(DefinitionStore):
    def __init__(self, database: object, tenant_id: TenantId) -> None:
        super().__init__(database, TenantId("everybody"))  # type: ignore[arg-type]


class Endless(DefinitionStore):
    async def add(self, definition: Definition, now: int, *, count_max: int, bytes_max: int) -> Definition:
        return await super().add(definition, now, count_max=99, bytes_max=bytes_max)


class Heavy(DefinitionStore):
    async def add(self, definition: Definition, now: int, *, count_max: int, bytes_max: int) -> Definition:
        return await super().add(definition, now, count_max=count_max, bytes_max=bytes_max * 9)


class Grave(DefinitionStore):
    async def add(self, definition: Definition, now: int, *, count_max: int, bytes_max: int) -> Definition:
        try:
            return await super().add(definition, now, count_max=count_max, bytes_max=bytes_max)
        except NotFound:
            return definition


def of(kind: type[DefinitionStore]) -> type[Store]:
    class Faulty(Store):
        def definitions(self, tenant_id: TenantId) -> DefinitionStore:
            return kind(self._database, tenant_id)

    return Faulty


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (of(Toolless), suite.check_a_definition_comes_back_as_it_was),
        (of(Echoing), suite.check_the_first_of_a_name_stays),
        (of(Timeless), suite.check_definitions_are_listed_in_order_of_registration),
        (of(Blind), suite.check_tenants_do_not_see_each_others_definitions),
        (of(Endless), suite.check_there_are_so_many_definitions_and_no_more),
        (of(Heavy), suite.check_definitions_have_so_many_bytes_and_no_more),
        (of(Grave), suite.check_a_deleted_tenant_registers_nothing),
    ],
)
async def test_a_planted_fault_is_found(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(10), pytest.raises(AssertionError):
        async with open_store(None) as store:
            await check(faulty(store._database))
