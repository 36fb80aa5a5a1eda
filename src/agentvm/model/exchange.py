"""Exchange — a user's message and everything that was done about it; a conversation is read exchange by exchange. Pure.

Messages are stored in the order in which they came. One that was queued came before the answer ahead of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import Message, UserMessage


def by_turn(history: Sequence[Message]) -> list[list[Message]]:
    """Messages by their turns, in the order in which these were accepted."""
    groups: dict[str, list[Message]] = {}
    untold = 0
    for message in history:
        if message.turn_id is None and isinstance(message, UserMessage):
            untold += 1
        groups.setdefault(message.turn_id or f"before-turns-{untold}", []).append(message)
    return list(groups.values())


def ended(exchanges: Sequence[Sequence[Message]], running: Collection[TurnId]) -> int:
    """Returns how many exchanges are over, counted from the first up to one that is not."""
    return next((place for place, exchange in enumerate(exchanges) if exchange[0].turn_id in running), len(exchanges))


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The first exchanges of a history, delimited in storage order."""

    message_id: MessageId
    """The last message of the last of them."""
    last: MessageId
    """The message of theirs that was stored last."""
    next: MessageId
    """The first message that is not theirs."""
    beyond: tuple[TurnId, ...] = ()
    """Turns of these exchanges that have messages after `next`."""


def extent(history: Sequence[Message], count: int) -> Extent | None:
    """Returns the first `count` exchanges, or as many of them as can be delimited. None when that is none of them, or all.

    Messages from before there were turns belong to no turn, so they must all lie before the rest.
    """
    exchanges = by_turn(history)
    for size in range(min(count, len(exchanges) - 1), 0, -1):
        included = {message.id for exchange in exchanges[:size] for message in exchange}
        first = next(place for place, message in enumerate(history) if message.id not in included)
        after = [message for message in history[first:] if message.id in included]
        if all(message.turn_id is not None for message in after):
            return Extent(
                message_id=exchanges[size - 1][-1].id,
                last=(after[-1] if after else history[first - 1]).id,
                next=history[first].id,
                beyond=tuple(dict.fromkeys(message.turn_id for message in after if message.turn_id is not None)),
            )
    return None


def size_of(history: Sequence[Message], covered: Extent) -> int:
    """Returns the number of exchanges in an extent."""
    exchanges = by_turn(history)
    return next(place + 1 for place, exchange in enumerate(exchanges) if exchange[-1].id == covered.message_id)


def covered_by(history: Sequence[Message], covered: Extent) -> list[MessageId]:
    """The messages that an extent has, exchange by exchange."""
    return [message.id for exchange in by_turn(history)[: size_of(history, covered)] for message in exchange]
