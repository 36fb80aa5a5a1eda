"""AG-UI events — the parts of a turn as events of a run. Pure.

A run ends where a turn waits: for tools of the page with their calls as pending, for people with an interrupt for each call.
"""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from agentvm.gateways.blocks import WHOLE, BlockKind, BlockWriter, Stretch, encode
from agentvm.gateways.turn_parts import CallEnded, CallMade, CallWaits, TurnEnded
from agentvm.model.usage import NO_USAGE, Usage

PROTOCOL_VERSION: Final = "1.0"
APPROVAL_SCHEMA: Final = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "editedArgs": {"type": "object"}, "reason": {"type": "string"}},
    "required": ["approved"],
}


class AgUiEvents(BlockWriter):
    """Writes a run. Its messages are named after the turn, so that a run which is told again has the same ones."""

    def __init__(
        self, thread_id: str, run_id: str, turn_id: str, *, stretch: Stretch = WHOLE, client_tools: Collection[str] = ()
    ) -> None:
        super().__init__(stretch, client_tools)
        self._run = {"threadId": thread_id, "runId": run_id}
        self._turn_id = turn_id
        self._number = 0
        self._parent: str | None = None

    def begin(self) -> bytes:
        return encode({"type": "RUN_STARTED", **self._run, "protocolVersion": PROTOCOL_VERSION})

    def begin_round(self) -> bytes:
        self._parent = None
        return b""

    def begin_block(self, kind: BlockKind) -> tuple[bytes, bytes]:
        message_id = self._message_id()
        if kind == "text":
            self._parent = message_id
            begun = encode({"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": "assistant"})
            return begun, _delta("TEXT_MESSAGE_CONTENT", message_id)
        begun = encode({"type": "REASONING_START", "messageId": message_id})
        begun += encode({"type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning"})
        return begun, _delta("REASONING_MESSAGE_CONTENT", message_id)

    def end_block(self, kind: BlockKind) -> bytes:
        about = {"messageId": f"{self._turn_id}-{self._number}"}
        if kind == "text":
            return encode({"type": "TEXT_MESSAGE_END", **about})
        return encode({"type": "REASONING_MESSAGE_END", **about}) + encode({"type": "REASONING_END", **about})

    def begin_call(self, call_id: str, name: str) -> bytes:
        if self._parent is None:
            self._parent = self._message_id()
        about = {"toolCallId": call_id, "toolCallName": name, "parentMessageId": self._parent}
        return encode({"type": "TOOL_CALL_START", **about})

    def call_input(self, call_id: str, piece: str) -> bytes:
        return encode({"type": "TOOL_CALL_ARGS", "toolCallId": call_id, "delta": piece})

    def completed_call(self, call: CallMade, *, is_begun: bool) -> bytes:
        written = b""
        if not is_begun:
            written = self.begin_call(call.call_id, call.name) + self.call_input(
                call.call_id, msgspec.json.encode(call.input).decode()
            )
        return written + self.cut_call(call.call_id)

    def cut_call(self, call_id: str) -> bytes:
        return encode({"type": "TOOL_CALL_END", "toolCallId": call_id})

    def end_call(self, call: CallEnded) -> bytes:
        about = {"messageId": f"{call.call_id}-result", "toolCallId": call.call_id, "role": "tool"}
        return encode({"type": "TOOL_CALL_RESULT", **about, "content": call.text})

    def call_waits(self, call: CallWaits) -> bytes:
        return b""

    def end_waiting(self) -> bytes:
        interrupts = [_interrupt(wait) for wait in self.waits if wait.kind != "client"]
        if interrupts:
            return self._finish({"type": "interrupt", "interrupts": interrupts}, NO_USAGE)
        pending = [wait.call_id for wait in self.waits]
        return self._finish({"type": "success", "pendingToolCallIds": pending}, NO_USAGE)

    def end(self, ended: TurnEnded) -> bytes:
        if ended.outcome == "failed":
            code, message = ended.error or ("internal", "The turn failed")
            return encode({"type": "RUN_ERROR", "message": message, "code": code, "usage": _usage(ended.usage)})
        outcome = "cancelled" if ended.outcome == "interrupted" else "success"
        return self._finish({"type": outcome}, ended.usage)

    def _finish(self, outcome: dict[str, Any], usage: Usage) -> bytes:
        return encode({"type": "RUN_FINISHED", **self._run, "outcome": outcome, "usage": _usage(usage)})

    def _message_id(self) -> str:
        self._number += 1
        return f"{self._turn_id}-{self._number}"


def _delta(kind: str, message_id: str) -> bytes:
    """Returns the beginning of a delta, up to its text."""
    return encode({"type": kind, "messageId": message_id})[:-3] + b',"delta":'


def _interrupt(wait: CallWaits) -> dict[str, Any]:
    about: dict[str, Any] = {"id": wait.wait_id, "reason": wait.kind, "toolCallId": wait.call_id}
    if wait.why:
        about["message"] = wait.why
    if wait.kind in ("approval", "consent"):
        about["responseSchema"] = APPROVAL_SCHEMA
    facts = {"toolName": wait.name, "input": wait.input, "questions": wait.questions, "url": wait.url}
    about["metadata"] = {name: value for name, value in facts.items() if value is not None}
    return about


def _usage(usage: Usage) -> list[dict[str, int]]:
    if usage == NO_USAGE:
        return []
    input_tokens = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return [
        {
            "inputTokens": input_tokens,
            "outputTokens": usage.output_tokens,
            "totalTokens": input_tokens + usage.output_tokens,
            "reasoningTokens": usage.thinking_tokens,
            "cachedInputTokens": usage.cache_read_tokens,
            "cacheWriteInputTokens": usage.cache_write_tokens,
        }
    ]
