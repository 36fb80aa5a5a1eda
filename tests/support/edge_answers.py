"""Outputs of a recorded model as the stream of a provider that the edge reads."""

import json
from collections.abc import Iterable, Sequence

from tests.support.provider import Answer, Step, Wait

from agentvm.drivers import base as model
from agentvm.drivers.scripted import Pause, ScriptStep
from agentvm.errors import ProviderError, ProviderOverloaded


def event(name: str, data: dict[str, object]) -> bytes:
    """One event as Anthropic sends them; half an emoji is written as JSON can say it."""
    return f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode()


def played(calls: Iterable[Sequence[ScriptStep]]) -> list[Answer]:
    """One answer for each call of the model."""
    return [Answer(steps=tuple(step for output in _Encoder().encode(call) for step in output)) for call in calls]


class _Encoder:
    """Writes the outputs of one call in the words of Anthropic."""

    def __init__(self) -> None:
        self._index = 0
        self._kind = ""

    def encode(self, outputs: Iterable[ScriptStep]) -> Iterable[list[Step]]:
        for output in outputs:
            yield self._one(output)

    def _one(self, output: ScriptStep) -> list[Step]:
        match output:
            case Pause(until=until):
                return [Wait(until)]
            case ProviderError():
                kind = "overloaded_error" if isinstance(output, ProviderOverloaded) else "invalid_request_error"
                return [event("error", {"error": {"type": kind, "message": str(output)}})]
            case model.MessageStarted(model=name):
                return [event("message_start", {"message": {"model": name, "usage": {"input_tokens": 1, "output_tokens": 1}}})]
            case model.TextStarted():
                return self._begin({"type": "text", "text": ""})
            case model.ThinkingStarted():
                return self._begin({"type": "thinking", "thinking": ""})
            case model.ToolCallStarted(call_id=call_id, name=name):
                return self._begin({"type": "tool_use", "id": call_id, "name": name, "input": {}})
            case model.TextChunk(text=text):
                return self._delta({"type": "text_delta", "text": text})
            case model.ThinkingChunk(text=text):
                return self._delta({"type": "thinking_delta", "thinking": text})
            case model.ToolInputChunk(partial_json=text):
                return self._delta({"type": "input_json_delta", "partial_json": text})
            case model.TextStopped() | model.ThinkingStopped() | model.ToolCallStopped():
                return self._end()
            case model.MessageStopped(stop_reason=reason):
                usage: dict[str, object] = {"output_tokens": 1}
                stopped = event("message_delta", {"delta": {"stop_reason": reason}, "usage": usage})
                return [*self._end(), stopped, event("message_stop", {})]
            case _:
                return []

    def _begin(self, block: dict[str, object]) -> list[Step]:
        ended = self._end()
        self._kind = str(block["type"])
        return [*ended, event("content_block_start", {"index": self._index, "content_block": block})]

    def _delta(self, delta: dict[str, object]) -> list[Step]:
        return [event("content_block_delta", {"index": self._index, "delta": delta})]

    def _end(self) -> list[Step]:
        if not self._kind:
            return []
        self._kind = ""
        self._index += 1
        return [event("content_block_stop", {"index": self._index - 1})]
