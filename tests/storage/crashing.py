"""A database whose process dies: what a crash between two commits leaves."""

from agentvm.errors import StoreFailed
from agentvm.model.ids import TenantId
from agentvm.model.node import DatabaseState
from agentvm.storage.sql.connection import Database, Scrubbed, T, Work


class CrashingDatabase:
    """A database whose process dies before the commit of a number: from then on nothing is written."""

    def __init__(self, database: Database, commits: int) -> None:
        self._database, self._left = database, commits

    @property
    def tenant_id(self) -> TenantId | None:
        return self._database.tenant_id

    @property
    def node_id(self) -> int:
        return self._database.node_id

    @property
    def waiting(self) -> int:
        return self._database.waiting

    def of(self, tenant_id: TenantId | None, /) -> "CrashingDatabase":
        return self

    async def write(self, work: Work[T], /) -> T:
        if not self._left:
            raise StoreFailed("the process is gone")
        self._left -= 1
        return await self._database.write(work)

    async def read(self, work: Work[T], /, *, heavy: bool = False, unhurried: bool = False) -> T:
        return await self._database.read(work, heavy=heavy, unhurried=unhurried)

    async def describe(self) -> DatabaseState:
        return await self._database.describe()

    async def size_bytes(self) -> int:
        return await self._database.size_bytes()

    async def scrub(self, first: int, /) -> Scrubbed | None:
        return await self._database.scrub(first)

    @property
    def has_died(self) -> bool:
        return not self._left
