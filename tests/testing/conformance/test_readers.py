"""The suite itself: stores with one planted fault each must not pass."""

from collections.abc import Awaitable, Callable, Mapping

import anyio
import pytest

from agentvm.model.ids import SessionId, TenantId
from agentvm.storage.base import ReaderPlace
from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store, TenantStore
from agentvm.testing.conformance import readers as suite

pytestmark = pytest.mark.anyio

Check = Callable[[Store], Awaitable[None]]
Places = Mapping[SessionId, ReaderPlace]


class Remembering(TenantStore):
    async def take_reader(self, client_id: str) -> dict[SessionId, ReaderPlace]:
        found = await super().take_reader(client_id)
        await self.save_reader(client_id, found)
        return found


class Merging(TenantStore):
    async def save_reader(self, client_id: str, places: Places) -> None:
        await super().save_reader(client_id, {**await self.take_reader(client_id), **places})


class FromTheBeginning(TenantStore):
    async def save_reader(self, client_id: str, places: Places) -> None:
        await super().save_reader(
            client_id, {name: ReaderPlace(place.seq or 0, place.saved_at) for name, place in places.items()}
        )


class Nameless(TenantStore):
    async def save_reader(self, client_id: str, places: Places) -> None:
        await super().save_reader("anybody", places)

    async def take_reader(self, client_id: str) -> dict[SessionId, ReaderPlace]:
        return await super().take_reader("anybody")


class Keeping(Store):
    async def trim_log(self, made_before: int, most_bytes: int) -> int:
        return 0


def with_tenants(kind: type[TenantStore]) -> type[Store]:
    class Faulty(Store):
        def tenant(self, tenant_id: TenantId) -> TenantStore:
            return kind(self._database, tenant_id)

    return Faulty


async def is_found(faulty: type[Store], check: Check) -> None:
    with anyio.fail_after(10), pytest.raises(AssertionError):
        async with open_store(None) as store:
            await check(faulty(store._database))


@pytest.mark.parametrize(
    ("faulty", "check"),
    [
        (with_tenants(Remembering), suite.check_a_reader_is_taken_once_as_it_was_saved),
        (with_tenants(Merging), suite.check_a_reader_saved_again_is_as_it_was_saved_last),
        (with_tenants(FromTheBeginning), suite.check_a_place_without_a_number_is_the_end_of_the_log),
        (with_tenants(Nameless), suite.check_readers_never_mix),
        (Keeping, suite.check_old_places_go_with_the_log),
    ],
)
async def test_a_planted_fault_is_found(faulty: type[Store], check: Check) -> None:
    await is_found(faulty, check)


def test_every_check_is_in_the_suite() -> None:
    assert [check.__name__ for check in suite.CHECKS] == [name for name in vars(suite) if name.startswith("check_")]
