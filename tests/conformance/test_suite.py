"""The suite itself: no check passes on a database that loses what is written or finds nothing."""

from typing import TypeVar

import anyio
import pytest

from agentvm.model.ids import TenantId
from agentvm.model.node import DatabaseState
from agentvm.storage.engine import open_store
from agentvm.storage.sql.connection import Args, Connection, Database, Row, Scrubbed, Work
from agentvm.storage.sql.search_index import SearchIndex
from agentvm.storage.sql.store import Store
from tests.conformance.suite import CHECKS, Check

T = TypeVar("T")


class FaultyDatabase:
    """A real database with a fault, which a subclass adds."""

    def __init__(self, database: Database) -> None:
        self.database = database

    @property
    def tenant_id(self) -> TenantId | None:
        return self.database.tenant_id

    @property
    def node_id(self) -> int:
        return self.database.node_id

    @property
    def waiting(self) -> int:
        return self.database.waiting

    def of(self, tenant_id: TenantId | None, /) -> "FaultyDatabase":
        return type(self)(self.database.of(tenant_id))

    async def write(self, work: Work[T], /) -> T:
        return await self.database.write(work)

    async def read(self, work: Work[T], /, *, heavy: bool = False, unhurried: bool = False) -> T:
        return await self.database.read(work, heavy=heavy, unhurried=unhurried)

    async def describe(self) -> DatabaseState:
        return await self.database.describe()

    async def size_bytes(self) -> int:
        return await self.database.size_bytes()

    async def scrub(self, first: int, /) -> Scrubbed | None:
        return None


class Losing(FaultyDatabase):
    """Rolls back what it says it has written."""

    async def write(self, work: Work[T], /) -> T:
        def undone(connection: Connection) -> T:
            connection.execute("SAVEPOINT lost")
            try:
                return work(connection)
            finally:
                connection.execute("ROLLBACK TO SAVEPOINT lost")
                connection.execute("RELEASE SAVEPOINT lost")

        return await self.database.write(undone)


class Blind(FaultyDatabase):
    """Finds no row."""

    async def read(self, work: Work[T], /, *, heavy: bool = False, unhurried: bool = False) -> T:
        return work(NoRows())


class NoRows:
    search: SearchIndex

    def add_together(self, *commit: object) -> None: ...

    def fetch(self, sql: str, args: Args = (), /) -> list[Row]:
        return []

    def execute(self, sql: str, args: Args = (), /) -> int:
        return 0

    def many(self, sql: str, rows: object, /) -> None:
        return None


class Careless(FaultyDatabase):
    """Refuses nothing: says that it has written and does not look."""

    async def write(self, work: Work[T], /) -> T:
        return None  # type: ignore[return-value]


FAULTS = (Blind, Losing, Careless)
# The one expects an empty store, the other a refusal that no database has a part in.
UNAFFECTED = {"check_nothing_is_there_before_it_is_made", "check_usage_by_anything_else_is_refused"}


async def passes(check: Check, fault: type[FaultyDatabase]) -> bool:
    async with open_store(None) as store:
        try:
            with anyio.fail_after(2):
                await check(Store(fault(store._database)))
        except Exception:  # noqa: BLE001  # However the check notices.
            return False
    return True


@pytest.mark.parametrize("check", [each for each in CHECKS if each.__name__ not in UNAFFECTED])
async def test_a_check_fails_on_a_faulty_database(check: Check) -> None:
    for fault in FAULTS:
        if not await passes(check, fault):
            return
    pytest.fail("the check passes whatever the store forgets")
