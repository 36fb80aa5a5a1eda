"""Recorder — commits what must outlive the process, before anybody is told of it.

Messages and the beginnings and ends of turns are facts; everything else a turn emits can be told again from them.
"""

from collections.abc import Sequence

import msgspec

from agentvm.events.base import Event
from agentvm.events.message import MessageEvent
from agentvm.events.turn import TurnRequest, TurnResponse
from agentvm.model.message import Message
from agentvm.model.turn import Turn
from agentvm.storage.base import Store


class StoreRecorder:
    """One batch of events is one commit. All durable events of a batch belong to one session."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def record(self, events: Sequence[Event]) -> None:
        messages: list[Message] = []
        turns: list[Turn] = []
        last: Event | None = None
        for event in events:
            match event.data:
                case MessageEvent(message=message):
                    messages.append(message)
                case TurnRequest() | TurnResponse() as data:
                    turns.append(_turn(event, data))
                case _:
                    continue
            last = event
        if last is None or last.scope.container_id is None or last.scope.session_id is None:
            return
        container = self._store.tenant(last.tenant_id).container(last.scope.container_id)
        await container.record(last.scope.session_id, messages=messages, turns=turns, now=last.timestamp)


def is_durable(event: Event) -> bool:
    return isinstance(event.data, MessageEvent | TurnRequest | TurnResponse)


def _turn(event: Event, data: TurnRequest | TurnResponse) -> Turn:
    scope = event.scope
    if scope.container_id is None or scope.image_id is None or scope.session_id is None:
        raise ValueError(f"{data.turn_id} belongs to no session")
    accepted = Turn(
        turn_id=data.turn_id,
        container_id=scope.container_id,
        image_id=scope.image_id,
        session_id=scope.session_id,
        message_id=data.message_id,
        accepted_at=data.timestamp,
    )
    if isinstance(data, TurnRequest):
        return accepted
    return msgspec.structs.replace(
        accepted,
        accepted_at=data.timestamp - data.duration,
        outcome=data.outcome,
        usage=data.usage,
        ended_at=data.timestamp,
    )
