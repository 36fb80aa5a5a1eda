"""Streamed message — one message of a model as content blocks that begin, grow and finish, never two at once. Pure."""

from typing import Any

import msgspec

from agentvm.gateways.langgraph import messages
from agentvm.gateways.langgraph.messages import LangMessage
from agentvm.gateways.turn_parts import CallBegun, CallInput, CallMade, TextAdded, ThinkingAdded, TurnPart
from agentvm.model.usage import NO_USAGE, Usage

INPUT_MAX_CHARACTERS = 8 * 1024
"""The input of a call is sent whole with each piece, as clients expect it; a longer one follows when it is complete."""

BlockEvent = dict[str, Any]

_encode = msgspec.json.Encoder().encode


class StreamedMessage:
    """The message, and the block that is open."""

    def __init__(self, message_id: str, run_id: str) -> None:
        self._message_id, self._run_id = message_id, run_id
        self._index = -1
        self._block: dict[str, Any] = {}
        self._pieces: list[str] = []
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._calls: list[LangMessage] = []
        self.is_text = False
        """Whether the open block is one of text."""

    def begin(self, text: str) -> list[BlockEvent]:
        """Begins the message, with a text if it continues after a restart."""
        about = {"run_id": self._run_id, "langgraph_node": "agent"}
        start = {"event": "message-start", "role": "ai", "id": self._message_id, "metadata": about}
        return [start, *(self.write(TextAdded(text)) if text else ())]

    def write(self, part: TurnPart) -> list[BlockEvent]:
        match part:
            case TextAdded(text=text):
                return self._grow("text", {"type": "text", "text": ""}, text)
            case ThinkingAdded(text=text):
                return self._grow("reasoning", {"type": "reasoning", "reasoning": ""}, text)
            case CallBegun(call_id=call_id, name=name):
                return [*self._finish(), self._start({"type": "tool_call_chunk", "id": call_id, "name": name, "args": ""})]
            case CallInput(piece=piece) if self._block.get("type") == "tool_call_chunk":
                return self._grow_input(piece)
            case CallMade(call_id=call_id, name=name, input=given):
                return self._make_call(messages.call(call_id, name, given))
            case _:
                return []

    def text_delta(self, text: str) -> bytes:
        """Returns the event of a further text, while the open block is one of text."""
        self._pieces.append(text)
        return b'{"event":"content-block-delta","index":%d,"delta":{"type":"text-delta","text":%b}}' % (
            self._index,
            _encode(text),
        )

    def end(self, usage: Usage) -> list[BlockEvent]:
        about = {} if usage == NO_USAGE else {"usage": messages.usage_of(usage)}
        return [*self._finish(), {"event": "message-finish", **about}]

    def whole(self, usage: Usage) -> LangMessage:
        """Returns the message, which has ended."""
        return messages.answer(self._message_id, "".join(self._texts), self._calls, usage, "".join(self._thinking))

    def _grow(self, kind: str, block: dict[str, Any], text: str) -> list[BlockEvent]:
        opening = [] if self._block.get("type") == kind else [*self._finish(), self._start(block)]
        self._pieces.append(text)
        delta = {"type": f"{kind}-delta", kind: text}
        return [*opening, {"event": "content-block-delta", "index": self._index, "delta": delta}]

    def _grow_input(self, piece: str) -> list[BlockEvent]:
        self._pieces.append(piece)
        if sum(map(len, self._pieces)) > INPUT_MAX_CHARACTERS:
            return []
        fields = {**self._block, "args": "".join(self._pieces)}
        delta = {"type": "block-delta", "fields": fields}
        return [{"event": "content-block-delta", "index": self._index, "delta": delta}]

    def _make_call(self, call: LangMessage) -> list[BlockEvent]:
        opening: list[BlockEvent] = []
        if self._block.get("type") != "tool_call_chunk" or self._block["id"] != call["id"]:
            opening = [
                *self._finish(),
                self._start({"type": "tool_call_chunk", "id": call["id"], "name": call["name"], "args": ""}),
            ]
        self._calls.append(call)
        self._close()
        return [*opening, {"event": "content-block-finish", "index": self._index, "content": call}]

    def _start(self, block: dict[str, Any]) -> BlockEvent:
        self._index += 1
        self._block, self._pieces, self.is_text = block, [], block["type"] == "text"
        return {"event": "content-block-start", "index": self._index, "content": block}

    def _finish(self) -> list[BlockEvent]:
        """Finishes the open block, if there is one."""
        if not self._block:
            return []
        block, text = self._block, "".join(self._pieces)
        match block["type"]:
            case "text":
                self._texts.append(text)
                block = {**block, "text": text}
            case "reasoning":
                self._thinking.append(text)
                block = {**block, "reasoning": text}
            case _:
                # The model stopped before the call was complete.
                block = {**block, "type": "invalid_tool_call", "args": text, "error": "The call was not finished"}
        self._close()
        return [{"event": "content-block-finish", "index": self._index, "content": block}]

    def _close(self) -> None:
        self._block, self._pieces, self.is_text = {}, [], False
