"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable

import anyio
import pytest
from msgspec import structs

from agentvm.errors import Conflict
from agentvm.model.ids import TenantId
from agentvm.storage.engine import open_store
from agentvm.storage.settings import Change
from agentvm.storage.sql.settings import SettingsStore
from agentvm.storage.sql.store import Store
from agentvm.testing.conformance import settings as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]


class Noteless(SettingsStore):
    async def append(self, change: Change) -> None:
        await super().append(structs.replace(change, note=None))


class Counting(SettingsStore):
    async def append(self, change: Change) -> None:
        await super().append(structs.replace(change, revision=len(await self.read()) + 1))


class Blind(SettingsStore):
    def __init__(self, database: object, tenant_id: TenantId | None) -> None:
        super().__init__(database, None)  # type: ignore[arg-type]


class OnePage(SettingsStore):
    async def list(self, *, before: int | None = None, limit: int = 100) -> tuple[Change, ...]:
        return await super().list(limit=limit)


class Forgiving(SettingsStore):
    async def append(self, change: Change) -> None:
        try:
            await super().append(change)
        except Conflict:
            return


class Grave(SettingsStore):
    async def append(self, change: Change) -> None:
        self._tenant_id = None
        await super().append(change)


def of(kind: type[SettingsStore]) -> type[Store]:
    class Faulty(Store):
        def settings(self, tenant_id: TenantId | None) -> SettingsStore:
            return kind(self._database, tenant_id)

    return Faulty


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (of(Noteless), suite.check_a_change_comes_back_as_it_was),
        (of(Counting), suite.check_revisions_count_without_gaps),
        (of(Blind), suite.check_scopes_do_not_see_each_other),
        (of(OnePage), suite.check_changes_are_listed_by_page_and_read_up_to_one),
        (of(Forgiving), suite.check_of_those_who_append_at_once_one_wins),
        (of(Grave), suite.check_a_deleted_tenant_takes_no_more_changes_and_none_of_its_own_count),
    ],
)
async def test_a_planted_fault_is_found(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(10), pytest.raises((AssertionError, Conflict)):
        async with open_store(None) as store:
            await check(faulty(store._database))


def test_every_check_is_in_the_suite() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
