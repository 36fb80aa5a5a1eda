"""Tickets — one-use tokens for WebSockets, accepted by any node of a cluster: using one deletes its row."""

from agentvm.storage.sql.connection import Connection, Database

DROPPED_MAX = 500
"""Unused tickets that go with one new ticket."""

_ADD = "INSERT INTO tickets (digest, body, until) VALUES (?, ?, ?)"
_TAKE = "DELETE FROM tickets WHERE digest = ? RETURNING body, until"
_DROP_OLD = "DELETE FROM tickets WHERE digest IN (SELECT digest FROM tickets WHERE until < ? LIMIT ?)"


class TicketStore:
    """The tickets of all nodes, by digest."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, digest: bytes, body: bytes, until: int, now: int) -> None:
        """Adds a ticket, and drops some that were never used."""

        def work(connection: Connection) -> None:
            connection.execute(_DROP_OLD, (now, DROPPED_MAX))
            connection.execute(_ADD, (digest, body, until))

        await self._database.write(work)

    async def take(self, digest: bytes) -> tuple[bytes, int] | None:
        """Returns the ticket and its expiry to the first caller, None to all later ones."""

        def work(connection: Connection) -> tuple[bytes, int] | None:
            return next(((bytes(body), int(until)) for body, until in connection.fetch(_TAKE, (digest,))), None)

        return await self._database.write(work)
