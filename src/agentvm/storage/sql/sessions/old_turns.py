"""Old turns — which turns of a session ended before some moment, each with all of its messages.

A queued message is stored before the turn ahead of it has ended, so the messages of two turns may lie between each other.
Forked and imported messages have no turns: their fields group them, or else a user's message starts a turn.
"""

from collections.abc import Iterator

import msgspec

from agentvm.model.ids import MessageId, TurnId
from agentvm.storage.retention import OldTurn, Weight
from agentvm.storage.sql.connection import Connection

AHEAD_MESSAGES = 100
"""Messages after the first that is not old, among which the rest of old turns is looked for."""

PAGE_MESSAGES = 500

_MESSAGES = "SELECT position, message_id, body FROM messages WHERE session_key = ? AND position > ? ORDER BY position LIMIT ?"
_TURNS = "SELECT turn_id, message_id, ended_at FROM turns WHERE session_key = ?"


class _Head(msgspec.Struct, rename="camel"):
    """The fields of a message that assign it to a turn."""

    timestamp: int = 0
    turn_id: str | None = None
    subtype: str = ""


_decode = msgspec.json.Decoder(_Head).decode


class _Group:
    __slots__ = ("bytes", "ids", "newest", "turn_id")

    def __init__(self, turn_id: str | None) -> None:
        self.turn_id = turn_id
        self.ids: list[MessageId] = []
        self.bytes = 0
        self.newest = 0


def find_old_turns(connection: Connection, session_key: int, before: int | None) -> tuple[OldTurn, ...]:
    """The oldest first; for None all."""
    groups = _gather(connection, session_key, before)
    if before is None:
        return tuple(map(_turn, groups))
    young: set[str] = set()
    """Turns that ended later or not at all, and the messages they answer."""
    for turn_id, message_id, ended_at in connection.fetch(_TURNS, (session_key,)):
        if ended_at is None or ended_at >= before:
            young.update((turn_id, message_id))
    return tuple(
        _turn(group) for group in groups if group.newest < before and group.turn_id not in young and young.isdisjoint(group.ids)
    )


def _gather(connection: Connection, session_key: int, before: int | None) -> list[_Group]:
    groups: dict[str | int, _Group] = {}
    ahead, loose = AHEAD_MESSAGES, 0
    for position, message_id, size, head in _heads(connection, session_key):
        if head.turn_id is None and (head.subtype == "user" or not loose):
            loose = position
        key = loose if head.turn_id is None else head.turn_id
        if before is not None and head.timestamp >= before and key not in groups:
            ahead -= 1
            if ahead < 0:
                break
        group = groups.setdefault(key, _Group(head.turn_id))
        group.ids.append(message_id)
        group.bytes += size
        group.newest = max(group.newest, head.timestamp)
    return list(groups.values())


def _heads(connection: Connection, session_key: int) -> Iterator[tuple[int, MessageId, int, _Head]]:
    after, at = 0, 0
    while page := connection.fetch(_MESSAGES, (session_key, after, PAGE_MESSAGES)):
        for position, message_id, body in page:
            try:
                head = _decode(body)
            except msgspec.DecodeError:
                # Nobody can read it; it goes with what was said before it.
                head = _Head(at)
            after, at = position, head.timestamp
            yield position, message_id, len(body), head


def _turn(group: _Group) -> OldTurn:
    turn_id = None if group.turn_id is None else TurnId(group.turn_id)
    return OldTurn(turn_id, tuple(group.ids), Weight(len(group.ids), group.bytes))
