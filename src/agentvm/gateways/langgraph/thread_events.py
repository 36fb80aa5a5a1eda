"""Thread events — the parts of turns as events of the thread protocol: lifecycle, messages, tools, input, values. Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from agentvm.gateways.langgraph import messages
from agentvm.gateways.langgraph.interrupts import interrupt_of
from agentvm.gateways.langgraph.messages import START, LangMessage
from agentvm.gateways.langgraph.run_events import VALUES_MAX_BYTES
from agentvm.gateways.langgraph.streamed_message import StreamedMessage
from agentvm.gateways.turn_parts import (
    AnswerBegun,
    AnswerEnded,
    CallEnded,
    CallMade,
    CallWaits,
    TextAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.model.usage import NO_USAGE, Usage

ProtocolEvent = tuple[str, bytes]
"""The method of an event, and its data."""

_encode = msgspec.json.Encoder().encode


class ThreadEvents:
    """Writes the turns of a thread, one after another, on the channels that the client has chosen.

    It reads each turn from the beginning; events up to `after`, which the client has, are not written again. Of the events that
    one event of the log becomes, only the last has its number, so that none is lost when the stream is cut in between.
    """

    def __init__(self, channels: frozenset[str], after: int = 0) -> None:
        self._channels, self._after = channels, after
        self._has_messages = "messages" in channels
        self.needs_history = not channels.isdisjoint({"values", "checkpoints"})
        self._is_parked = False
        self._announced: set[str] = set()
        self._opening: list[ProtocolEvent] = []
        self._run_id = ""
        self._forget()

    def _forget(self) -> None:
        self._history: list[tuple[str, bytes]] = []
        self._size = 0
        self._answer: StreamedMessage | None = None
        self._waits: list[dict[str, Any]] = []

    def begin(self, run_id: str, history: Sequence[LangMessage]) -> None:
        """Begins a turn after its history; the events of that come before its first part."""
        self._forget()
        self._run_id, self._is_parked = run_id, False
        for message in history:
            self._remember(message)
        self._opening = [_lifecycle("running"), *self._values()]

    def has_announced(self, waits: Collection[str]) -> bool:
        """Returns whether the client has been told of all of these."""
        return self._announced.issuperset(waits)

    def write(self, part: TurnPart, cursor: int, at: int) -> bytes:
        answer = self._answer
        if isinstance(part, TextAdded) and answer is not None and answer.is_text and not self._is_parked:
            # Nearly all parts are these.
            delta = answer.text_delta(part.text)
            if not self._has_messages or cursor <= self._after:
                return b""
            return _EVENT % (cursor, b"messages", cursor, b"messages", 0, cursor, b"messages", at, delta)
        opening, self._opening = self._opening, []
        if self._is_parked and not isinstance(part, TurnWaits):
            self._is_parked = False
            opening.append(_lifecycle("running"))
        return self._written([*opening, *self._events(part)], cursor, at)

    def _written(self, events: Sequence[ProtocolEvent], cursor: int, at: int) -> bytes:
        """Returns the events of the chosen channels. Their ids are the same on every stream, whichever it has chosen."""
        if cursor <= self._after:
            return b""
        indexes = Counter[str]()
        shown: list[tuple[bytes, int, bytes]] = []
        for method, data in events:
            if _channel(method) in self._channels:
                shown.append((method.encode(), indexes[method], data))
            indexes[method] += 1
        numbers = [cursor - 1] * (len(shown) - 1) + [cursor]
        return b"".join(
            _EVENT % (number, method, cursor, method, index, number, method, at, data)
            for number, (method, index, data) in zip(numbers, shown, strict=False)
        )

    def _events(self, part: TurnPart) -> Iterator[ProtocolEvent]:
        match part:
            case AnswerBegun(message_id=message_id, text=text):
                if self._answer is not None:
                    # Begun again after a failure of the provider: what was said is not part of the answer.
                    yield from _of_message(self._answer.end(NO_USAGE))
                self._answer = StreamedMessage(message_id, self._run_id)
                yield from _of_message(self._answer.begin(text))
            case AnswerEnded(usage=usage):
                yield from self._close_answer(usage)
            case CallEnded():
                result = messages.result(part.message_id, part.call_id, part.name, part.text, is_error=part.is_error)
                yield "tools", _encode(_tool_end(part))
                self._remember(result)
                yield from self._values()
            case CallWaits():
                self._waits.append(interrupt_of(part))
            case TurnWaits(waits=waits):
                yield from self._park([wait for wait in self._waits if wait["id"] in waits])
            case TurnEnded():
                yield from self._end(part)
            case _ if self._answer is not None:
                yield from _of_message(self._answer.write(part))
                if isinstance(part, CallMade):
                    about = {"tool_call_id": part.call_id, "tool_name": part.name, "input": part.input}
                    yield "tools", _encode({"event": "tool-started", **about})
            case _:
                pass

    def _close_answer(self, usage: Usage) -> Iterator[ProtocolEvent]:
        if self._answer is None:
            return
        yield from _of_message(self._answer.end(usage))
        message = self._answer.whole(usage)
        self._answer = None
        if message["content"] or message["tool_calls"] or usage != NO_USAGE:
            self._remember(message)
            yield from self._values()

    def _remember(self, message: LangMessage) -> None:
        if self.needs_history:
            data = _encode(message)
            self._history.append((str(message["id"]), data))
            self._size += len(data)

    def _values(self, waits: Sequence[dict[str, Any]] = (), *, is_last: bool = False) -> Iterator[ProtocolEvent]:
        """Yields the checkpoint and the values at it; a large history is sent once, at the end."""
        if not self.needs_history or (self._size > VALUES_MAX_BYTES and not is_last):
            return
        ids = [START, *(message_id for message_id, _ in self._history)]
        checkpoint = {
            "id": ids[-1],
            "parent_id": ids[-2] if len(ids) > 1 else None,
            "step": len(self._history),
            "source": "loop",
        }
        yield "checkpoints", _encode(checkpoint)
        if "values" in self._channels:
            listed = b",".join(data for _, data in self._history)
            interrupts = b',"__interrupt__":%b' % _encode(waits) if waits else b""
            yield "values", b'{"messages":[%b]%b}' % (listed, interrupts)

    def _park(self, waits: list[dict[str, Any]]) -> Iterator[ProtocolEvent]:
        for wait in waits:
            if wait["id"] not in self._announced:
                self._announced.add(wait["id"])
                # The name of its value differs between the official clients.
                about = {"interrupt_id": wait["id"], "payload": wait["value"], "value": wait["value"]}
                yield "input.requested", _encode(about)
        yield from self._values(waits, is_last=True)
        self._is_parked = True
        yield _lifecycle("interrupted")

    def _end(self, part: TurnEnded) -> Iterator[ProtocolEvent]:
        yield from self._close_answer(NO_USAGE)
        if self._size > VALUES_MAX_BYTES:
            yield from self._values(is_last=True)
        if part.outcome == "failed":
            _, error = part.error or ("", "The turn failed")
            yield _lifecycle("failed", error)
        else:
            # Of a turn that was stopped, too: the client for Python takes "interrupted" for a wait, and would wait on.
            yield _lifecycle("completed")


_EVENT = (
    b'id: %d\nevent: %b\ndata: {"type":"event","event_id":"%d.%b.%d","seq":%d,"method":"%b",'
    b'"params":{"namespace":[],"timestamp":%d,"data":%b}}\n\n'
)


def _channel(method: str) -> str:
    return "input" if method == "input.requested" else method


def _lifecycle(event: str, error: str | None = None) -> ProtocolEvent:
    return "lifecycle", _encode({"event": event} if error is None else {"event": event, "error": error})


def _of_message(events: Sequence[dict[str, Any]]) -> Iterator[ProtocolEvent]:
    return (("messages", _encode(event)) for event in events)


def _tool_end(part: CallEnded) -> dict[str, Any]:
    if part.is_error:
        return {"event": "tool-error", "tool_call_id": part.call_id, "message": part.text}
    return {"event": "tool-finished", "tool_call_id": part.call_id, "output": part.text}
