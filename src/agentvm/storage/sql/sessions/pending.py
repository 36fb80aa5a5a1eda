"""Pending — messages that are not indexed yet, and their indexing.

Theory of operation. To put words into the index costs as much as half of a turn when it is done for each commit, and almost
nothing for many messages at once. So a commit only notes the places of its messages (`search_pending`), and the words follow in
the background, a second later: some messages are read and cut into words by a reader's thread, then one short commit puts them
in and removes the notes. After a crash the pending messages are still noted. A search first indexes the pending messages of its
own containers, so it finds the most recent ones.

A batch takes messages of tenants in turn, and at most `PIECE_BYTES` of text, because all tenants share the writer.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from agentvm.errors import StoreFailed
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, TenantId
from agentvm.model.message import decode_message
from agentvm.storage.sql.connection import Connection, Database
from agentvm.storage.sql.dialect import ORDERED_JOIN, numbers_of
from agentvm.storage.sql.sessions.index import entry_of, key_of, words_of
from agentvm.storage.sql.sessions.listing import scope

logger = get_logger(__name__)

PIECE_BYTES = 64 * 1024
PIECE_MESSAGES = 200
SEEN_MAX = 5_000
"""Notes that are looked at for a batch."""
WAITED_PIECES_MAX = 50
"""Batches that a search waits for. It does not find the messages left then; they are indexed soon."""

# Numbered within each tenant, so that the first of all come before the second of any.
_NEXT = """
SELECT position, s.tenant_id, s.container_id
FROM (
    SELECT position, session_key, row_number() OVER (PARTITION BY tenant_id ORDER BY position) AS number
    FROM (SELECT * FROM search_pending ORDER BY position LIMIT :seen) AS seen
) AS numbered JOIN sessions AS s USING (session_key)
ORDER BY number, position LIMIT :most
"""
_NEXT_OF = f"""
SELECT p.position, s.tenant_id, s.container_id
FROM search_pending AS p {ORDERED_JOIN} sessions AS s ON s.session_key = p.session_key
WHERE p.tenant_id = :tenant AND {{where}}
ORDER BY p.position LIMIT :most
"""
_SIZES = f"SELECT position, length(body) FROM messages WHERE position IN ({numbers_of('?')})"
_BODIES = f"SELECT position, body FROM messages WHERE position IN ({numbers_of('?')})"
_STILL = f"SELECT position FROM search_pending WHERE position IN ({numbers_of('?')})"
_DONE = "DELETE FROM search_pending WHERE position = ?"


class PendingText(NamedTuple):
    """A message as the index takes it; '' for one without words."""

    position: int
    words: str


class PendingPiece(NamedTuple):
    """Messages for one commit."""

    messages: list[PendingText]
    more: bool
    """Whether others were pending besides."""


def cut_some(
    connection: Connection, tenant_id: TenantId | None = None, containers: Sequence[ContainerId] | None = None
) -> PendingPiece:
    """The next messages of a tenant's containers, or of all, cut into words. For a reader's thread."""
    values: dict[str, Any] = {"most": PIECE_MESSAGES}
    if tenant_id is None:
        query, values["seen"] = _NEXT, SEEN_MAX
    else:
        query = _NEXT_OF.format(where=scope(tenant_id, containers, values))
    pending = connection.fetch(query, values)
    positions = _piece(connection, [position for position, *_ in pending])
    bodies: dict[int, bytes] = dict(connection.fetch(_BODIES, _named(positions)) if positions else ())
    keys = {(owner, container_id): key_of(owner, container_id) for _, owner, container_id in pending}
    messages = [
        PendingText(position, words_of(keys[owner, container_id], _text(position, bodies.get(position))))
        for position, owner, container_id in pending[: len(positions)]
    ]
    return PendingPiece(messages, len(pending) == PIECE_MESSAGES or len(positions) < len(pending))


def _piece(connection: Connection, positions: Sequence[int]) -> Sequence[int]:
    """The first of these messages that together have no more than `PIECE_BYTES`; at least one."""
    sizes: dict[int, int] = dict(connection.fetch(_SIZES, _named(positions)) if positions else ())
    together = accumulate(sizes.get(position, 0) for position in positions)
    return positions[: max(1, sum(size <= PIECE_BYTES for size in together))]


def _named(positions: Sequence[int]) -> tuple[str]:
    return (msgspec.json.encode(positions).decode(),)


def put_in(connection: Connection, batch: Sequence[PendingText]) -> None:
    """Indexes messages that are still pending: another job may have done it, or the message may be gone. For the writer."""
    named = _named([position for position, _ in batch])
    still = {position for (position,) in connection.fetch(_STILL, named)}
    connection.many(_DONE, [(position,) for position in sorted(still)])
    # In the order of their places: SQLite writes out what it has gathered whenever they run backwards.
    connection.search.add_messages([added for added in sorted(batch) if added.words and added.position in still])


async def index_pending(
    database: Database, tenant_id: TenantId | None = None, containers: Sequence[ContainerId] | None = None
) -> PendingPiece | None:
    """Puts the next messages in, and returns them; None if there were none."""
    piece = await database.read(lambda connection: cut_some(connection, tenant_id, containers))
    if not piece.messages:
        return None
    await database.write(lambda connection: put_in(connection, piece.messages))
    return piece


async def index_all_pending(database: Database, tenant_id: TenantId, containers: Sequence[ContainerId] | None) -> None:
    """Indexes the pending messages of these containers, so that a search finds them."""
    try:
        for _ in range(WAITED_PIECES_MAX):
            piece = await index_pending(database, tenant_id, containers)
            if piece is None or not piece.more:
                return
    except StoreFailed as error:
        # A disk that takes nothing can still be read.
        logger.warning("search_incomplete", code=error.code, error=str(error))


def _text(position: int, body: bytes | None) -> str:
    if body is None:
        return ""
    try:
        return entry_of(decode_message(body)).text
    except msgspec.DecodeError as error:
        # It cannot be read anywhere else either; the others must not be kept from being found.
        logger.warning("message_not_indexed", position=position, error=str(error))
        return ""
