"""UI chunks — the parts of a turn as chunks of one message of the assistant. Pure.

The message has the name of the turn: a turn that continues after answers continues with its message. Tools of the server are
dynamic and run by the provider; those of the page are neither, so that the page runs them.
"""

from collections.abc import Collection
from typing import Any, Final

from agentvm.gateways.blocks import WHOLE, BlockKind, BlockWriter, Stretch, encode
from agentvm.gateways.embedded_json import read_value
from agentvm.gateways.turn_parts import CallEnded, CallMade, CallWaits, TurnEnded

DONE: Final = b"data: [DONE]\n\n"
_KINDS: Final[dict[BlockKind, str]] = {"text": "text", "thinking": "reasoning"}
_FINISH: Final = {"max_tokens": "length", "refusal": "content-filter"}
_OWN: Final = {"dynamic": True, "providerExecuted": True}


class UiChunks(BlockWriter):
    """Writes a turn, or the part of it after answers to its waits."""

    def __init__(self, message_id: str, *, stretch: Stretch = WHOLE, client_tools: Collection[str] = ()) -> None:
        super().__init__(stretch, client_tools)
        self._message_id = message_id
        self._number = 0

    def begin(self) -> bytes:
        return encode({"type": "start", "messageId": self._message_id})

    def begin_round(self) -> bytes:
        return encode({"type": "start-step"})

    def end_round(self) -> bytes:
        return encode({"type": "finish-step"})

    def begin_block(self, kind: BlockKind) -> tuple[bytes, bytes]:
        self._number += 1
        about = {"id": f"{self._message_id}-{self._number}"}
        begun = encode({"type": f"{_KINDS[kind]}-start", **about})
        return begun, encode({"type": f"{_KINDS[kind]}-delta", **about})[:-3] + b',"delta":'

    def end_block(self, kind: BlockKind) -> bytes:
        return encode({"type": f"{_KINDS[kind]}-end", "id": f"{self._message_id}-{self._number}"})

    def begin_call(self, call_id: str, name: str) -> bytes:
        return encode({"type": "tool-input-start", "toolCallId": call_id, "toolName": name, **self._whose(name)})

    def call_input(self, call_id: str, piece: str) -> bytes:
        return encode({"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": piece})

    def completed_call(self, call: CallMade, *, is_begun: bool) -> bytes:
        about = {"toolCallId": call.call_id, "toolName": call.name, "input": call.input}
        return encode({"type": "tool-input-available", **about, **self._whose(call.name)})

    def end_call(self, call: CallEnded) -> bytes:
        own = {} if call.name in self._client_tools else _OWN
        if call.is_error:
            return encode({"type": "tool-output-error", "toolCallId": call.call_id, "errorText": call.text, **own})
        output = call.text if own else _value(call.text)
        return encode({"type": "tool-output-available", "toolCallId": call.call_id, "output": output, **own})

    def call_waits(self, call: CallWaits) -> bytes:
        about: dict[str, Any] = {"toolCallId": call.call_id}
        match call.kind:
            case "client":
                return b""
            case "approval" | "consent":
                why = {"reason": call.why} if call.why else {}
                return encode({"type": "tool-approval-request", "approvalId": call.wait_id, **about, **why})
            case _:
                # The page answers, as if the tool were its own.
                call_again = {"toolName": call.name, "input": call.input, "dynamic": True, "providerExecuted": False}
                facts = {"waitId": call.wait_id, "why": call.why, "questions": call.questions, "url": call.url, **about}
                question = encode({"type": "data-question", "id": call.wait_id, "data": facts})
                return question + encode({"type": "tool-input-available", **about, **call_again})

    def end_waiting(self) -> bytes:
        return encode({"type": "finish", "finishReason": "tool-calls"}) + DONE

    def end(self, ended: TurnEnded) -> bytes:
        if ended.outcome == "failed":
            code, message = ended.error or ("internal", "The turn failed")
            return encode({"type": "error", "errorText": f"{message} ({code})"}) + DONE
        reason = "interrupted" if ended.outcome == "interrupted" else _FINISH.get(ended.stop, "stop")
        return encode({"type": "finish", "finishReason": reason}) + DONE

    def _whose(self, name: str) -> dict[str, bool]:
        return {} if name in self._client_tools else _OWN


def _value(text: str) -> object:
    """Returns the result of a tool of the page as the page gave it."""
    return read_value(text) if text.startswith(("{", "[")) else text
