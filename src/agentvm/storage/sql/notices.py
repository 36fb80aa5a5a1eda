"""Notices — changes that every node of a cluster must learn of: permissions, settings, webhooks, quarantined sessions.

The database writes them itself (triggers), in the transaction of the change, so none is forgotten; none while no node is up.
"""

from typing import NamedTuple

from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import DATABASE_NOW

RETENTION_MS = 600_000
"""Notices are dropped after this long: every node has read them, or was declared dead."""

# By time, not by number: a smaller number may be committed later.
_READ = f"SELECT {DATABASE_NOW}, notice_id, kind, tenant_id, subject, at FROM notices WHERE at > ? ORDER BY notice_id"
_NOW = f"SELECT {DATABASE_NOW}"
_DROP_OLD = f"""
DELETE FROM notices WHERE notice_id IN (SELECT notice_id FROM notices WHERE at < {DATABASE_NOW} - ? LIMIT ?)
"""


class ClusterNotice(NamedTuple):
    """A change of a key, a user and so on, which `subject` names. `at` is the time of the database's clock."""

    notice_id: int
    kind: str
    tenant_id: str
    subject: str
    at: int


class NoticeStore:
    """The notices of all nodes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def now(self) -> int:
        """The time of the database's clock."""
        return await self._database.read(lambda connection: int(connection.fetch(_NOW)[0][0]))

    async def read(self, since: int) -> tuple[int | None, tuple[ClusterNotice, ...]]:
        """The notices since that time of the database's clock, and the time of reading; None if there are none."""

        def read(connection: Connection) -> tuple[int | None, tuple[ClusterNotice, ...]]:
            rows = connection.fetch(_READ, (since,))
            return (rows[0][0] if rows else None), tuple(ClusterNotice(*row[1:]) for row in rows)

        return await self._database.read(read)

    async def drop_old(self, limit: int = 500) -> bool:
        """Drops some of the notices that are too old; whether there may be more."""
        return await self._database.write(lambda connection: connection.execute(_DROP_OLD, (RETENTION_MS, limit))) == limit
