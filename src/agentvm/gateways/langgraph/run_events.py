"""Run events — the parts of a turn as the events of a run: metadata, messages, updates, values and error. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentvm.gateways import sse
from agentvm.gateways.langgraph import messages
from agentvm.gateways.langgraph.interrupts import interrupt_of
from agentvm.gateways.langgraph.messages import LangMessage
from agentvm.gateways.turn_parts import (
    AnswerBegun,
    AnswerEnded,
    CallBegun,
    CallEnded,
    CallInput,
    CallMade,
    CallWaits,
    TextAdded,
    ThinkingAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.model.usage import NO_USAGE, Usage

VALUES_MAX_BYTES = 2 * 1024 * 1024
"""A history beyond this is sent once, at the end."""

_encode = msgspec.json.Encoder().encode


class RunEvents:
    """Writes a turn in the modes that the client has chosen.

    It reads the turn from the beginning. Events up to `after`, which the client has, are not written again. The number of an
    event is on the last of those that one event of the log becomes, so that none is lost when the stream is cut in between.
    """

    def __init__(self, run_id: str, thread_id: str, assistant_id: str, modes: frozenset[str], after: int = 0) -> None:
        self._run_id, self._modes, self._after = run_id, modes, after
        self._about = {"run_id": run_id, "thread_id": thread_id, "graph_id": assistant_id, "assistant_id": assistant_id}
        agent = {**self._about, "langgraph_node": "agent"}
        self._agent_tail = b"},%b]\n\n" % _encode(agent)
        self._tools_about = {**self._about, "langgraph_node": "tools"}
        self._has_tuples = "messages-tuple" in modes
        self._history: list[bytes] = []
        self._size = 0
        self._waits: list[dict[str, Any]] = []
        self._end_answer()
        self.ended: TurnEnded | None = None
        self.is_done = False

    def begin(self, cursor: int) -> bytes:
        """Returns the event before all others."""
        return sse.event(_encode({"run_id": self._run_id, "attempt": 1}), "metadata", max(cursor, self._after))

    def remember(self, history: Sequence[LangMessage], cursor: int) -> bytes:
        """Takes the messages before the turn's answer, and returns them as values."""
        self._history = [_encode(message) for message in history]
        self._size = sum(map(len, self._history))
        return b"" if cursor <= self._after else self._written(self._values())

    def write(self, part: TurnPart, cursor: int) -> bytes:
        if isinstance(part, TextAdded):
            self._texts.append(part.text)
            if not self._has_tuples or cursor <= self._after:
                return b""
            return b'id: %d\n%b%b,"tool_call_chunks":[]%b' % (cursor, self._head, _encode(part.text), self._agent_tail)
        events = self._events(part)
        return b"" if cursor <= self._after else self._written(events, cursor)

    def _written(self, events: Sequence[tuple[str, bytes]], cursor: int | None = None) -> bytes:
        last = len(events) - 1
        return b"".join(sse.event(data, name, cursor if at == last else None) for at, (name, data) in enumerate(events))

    def _events(self, part: TurnPart) -> list[tuple[str, bytes]]:
        match part:
            case AnswerBegun(message_id=message_id, text=text):
                return self._begin_answer(message_id, text)
            case ThinkingAdded(text=text):
                self._thinking.append(text)
                return self._chunk(additional_kwargs={"reasoning_content": text})
            case CallBegun(call_id=call_id, name=name):
                self._indexes[call_id] = len(self._indexes)
                return self._call_chunk(call_id, name, "")
            case CallInput(call_id=call_id, piece=piece):
                return self._call_chunk(call_id, None, piece)
            case CallMade(call_id=call_id, name=name, input=given):
                self._calls.append(messages.call(call_id, name, given))
                return []
            case AnswerEnded(usage=usage):
                return self._close_answer(usage)
            case CallEnded():
                ended = messages.result(part.message_id, part.call_id, part.name, part.text, is_error=part.is_error)
                return [*self._whole(ended), *self._add("tools", ended)]
            case CallWaits():
                self._waits.append(interrupt_of(part))
                return []
            case TurnWaits(waits=waits):
                self._waits = [wait for wait in self._waits if wait["id"] in waits]
                return self._park()
            case TurnEnded():
                return self._end(part)
            case _:
                return []

    def _begin_answer(self, message_id: str, text: str) -> list[tuple[str, bytes]]:
        # Begun again after a failure of the provider: what was said is not part of the answer.
        self._end_answer(message_id)
        if text:
            self._texts.append(text)
        return self._chunk(text) if text else []

    def _end_answer(self, message_id: str = "") -> None:
        self._message_id = message_id
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[LangMessage] = []
        self._indexes: dict[str, int] = {}
        self._head = b'event: messages\ndata: [{"type":"AIMessageChunk","id":%b,"content":' % _encode(message_id)

    def _close_answer(self, usage: Usage) -> list[tuple[str, bytes]]:
        if not self._message_id:
            return []
        answer = messages.answer(self._message_id, "".join(self._texts), self._calls, usage, "".join(self._thinking))
        last = [] if usage == NO_USAGE else self._chunk(usage_metadata=messages.usage_of(usage))
        self._end_answer()
        return [*last, *self._complete(answer), *self._add("agent", answer)]

    def _add(self, node: str, message: LangMessage) -> list[tuple[str, bytes]]:
        """Adds a message to the history, and returns that as an update and as values."""
        data = _encode(message)
        self._history.append(data)
        self._size += len(data)
        events = [("updates", b'{"%b":{"messages":[%b]}}' % (node.encode(), data))] if "updates" in self._modes else []
        return [*events, *self._values()]

    def _values(self, *, is_last: bool = False) -> list[tuple[str, bytes]]:
        if "values" not in self._modes or (self._size > VALUES_MAX_BYTES and not is_last):
            return []
        waits = b',"__interrupt__":%b' % _encode(self._waits) if is_last and self._waits else b""
        return [("values", b'{"messages":[%b]%b}' % (b",".join(self._history), waits))]

    def _chunk(self, content: str = "", **about: Any) -> list[tuple[str, bytes]]:
        if not self._has_tuples:
            return []
        chunk = {"type": "AIMessageChunk", "id": self._message_id, "content": content, "tool_call_chunks": [], **about}
        return [("messages", _encode([chunk, {**self._about, "langgraph_node": "agent"}]))]

    def _call_chunk(self, call_id: str, name: str | None, piece: str) -> list[tuple[str, bytes]]:
        index = self._indexes.get(call_id, 0)
        chunk = {"name": name, "args": piece, "id": call_id if name else None, "index": index, "type": "tool_call_chunk"}
        return self._chunk(tool_call_chunks=[chunk])

    def _whole(self, message: LangMessage) -> list[tuple[str, bytes]]:
        tuples = [("messages", _encode([message, self._tools_about]))] if self._has_tuples else []
        return [*tuples, *self._complete(message)]

    def _complete(self, message: LangMessage) -> list[tuple[str, bytes]]:
        return [("messages/complete", _encode([message]))] if "messages" in self._modes else []

    def _park(self) -> list[tuple[str, bytes]]:
        """Ends the stream: the turn continues with an answer, and another stream."""
        self.is_done = True
        waits = [("updates", _encode({"__interrupt__": self._waits}))] if "updates" in self._modes else []
        return [*waits, *self._values(is_last=True)]

    def _end(self, part: TurnEnded) -> list[tuple[str, bytes]]:
        events = self._close_answer(NO_USAGE) if self._texts else []
        self.ended, self.is_done, self._waits = part, True, []
        if self._size > VALUES_MAX_BYTES:
            events += self._values(is_last=True)
        if part.outcome == "failed":
            code, message = part.error or ("internal", "The turn failed")
            events.append(("error", _encode({"error": code, "message": message})))
        return events
