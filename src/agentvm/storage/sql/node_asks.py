"""Node asks — questions of nodes to each other, and their answers, as rows."""

from collections.abc import Sequence

import msgspec

from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import DATABASE_NOW, numbers_of

RETENTION_MS = 120_000
"""Unanswered or unread questions are deleted after this time."""

_PUT = f"INSERT INTO node_asks (to_node, from_node, body, asked_at) VALUES (?, ?, ?, {DATABASE_NOW}) RETURNING ask_id"
_INBOX = "SELECT ask_id, body FROM node_asks WHERE to_node = ? AND reply IS NULL ORDER BY ask_id"
_REPLY = "UPDATE node_asks SET reply = ? WHERE ask_id = ?"
_REPLIES = f"SELECT ask_id, reply FROM node_asks WHERE reply IS NOT NULL AND ask_id IN ({numbers_of('?')})"
_DROP = "DELETE FROM node_asks WHERE ask_id = ?"
_DROP_OLD = f"DELETE FROM node_asks WHERE asked_at < {DATABASE_NOW} - ?"

Numbered = tuple[int, bytes]


class NodeQuestionStore:
    """The questions of one node, and those to it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.node_id = database.node_id

    async def put(self, to_node: int, body: bytes) -> int:
        """Asks a node; returns the number of the question."""

        def work(connection: Connection) -> int:
            number: int = connection.fetch(_PUT, (to_node, self.node_id, body))[0][0]
            return number

        return await self._database.write(work)

    async def read_pending(self, waiting: Sequence[int]) -> tuple[tuple[Numbered, ...], tuple[Numbered, ...]]:
        """The questions to this node that have no answer, and the answers to those of its own questions."""

        def read(connection: Connection) -> tuple[tuple[Numbered, ...], tuple[Numbered, ...]]:
            inbox = connection.fetch(_INBOX, (self.node_id,))
            replies = connection.fetch(_REPLIES, (msgspec.json.encode(waiting).decode(),)) if waiting else []
            return tuple((number, body) for number, body in inbox), tuple((number, body) for number, body in replies)

        return await self._database.read(read)

    async def reply(self, number: int, body: bytes) -> None:
        await self._database.write(lambda connection: connection.execute(_REPLY, (body, number)))

    async def drop(self, number: int) -> None:
        await self._database.write(lambda connection: connection.execute(_DROP, (number,)))

    async def drop_old(self) -> None:
        await self._database.write(lambda connection: connection.execute(_DROP_OLD, (RETENTION_MS,)))
