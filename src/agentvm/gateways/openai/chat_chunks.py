"""Chat chunks — the parts of a turn as chunks of a chat completion, or as one object. Pure."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from agentvm.gateways.openai.errors import about
from agentvm.gateways.turn_parts import (
    AnswerEnded,
    CallEnded,
    CallMade,
    CallWaits,
    TextAdded,
    ThinkingAdded,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.gateways.words import EN, Words, asks_caller, held_text, is_asked, wait_text
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.model.wait import WaitId
from agentvm.operations.tool import WaitView

DONE = b"data: [DONE]\n\n"
FINISH = {"max_tokens": "length", "refusal": "content_filter"}

_encode = msgspec.json.Encoder().encode


def usage_of(usage: Usage) -> dict[str, Any]:
    """Returns the tokens in the words of chat completions, where those of the cache are part of the prompt."""
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.thinking_tokens},
    }


class ChatChunks:
    """Writes a turn as chunks, and collects its text. Also used for an answer in one piece."""

    def __init__(
        self,
        completion_id: str,
        model: str,
        created: int,
        *,
        with_usage: bool = False,
        shows_tools: bool = False,
        words: Words = EN,
        after: Collection[WaitView] = (),
    ) -> None:
        """`after` are the waits whose answers the turn continues from: the parts before are in an earlier answer."""
        self._after = list(after)
        self._with_usage, self._shows_tools, self._words = with_usage, shows_tools, words
        self._waits: dict[WaitId, CallWaits] = {}
        self._announced: set[WaitId] = set()
        head = {"id": completion_id, "object": "chat.completion.chunk", "created": created, "model": model}
        # Everything but the delta is the same for each chunk.
        self._head = b"data: " + _encode(head)[:-1] + b',"choices":'
        self._content = self._head + b'[{"index":0,"delta":{"content":'
        self._reasoning = self._head + b'[{"index":0,"delta":{"reasoning_content":'
        self.texts: list[str] = []
        self.thinking: list[str] = []
        self.calls: list[CallWaits] = []
        self._earlier = NO_USAGE
        """Tokens of the model calls that an earlier answer has told."""
        self.usage = NO_USAGE
        self.ended: TurnEnded | None = None
        self.is_done = False

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def finish(self) -> str:
        if self.calls:
            return "tool_calls"
        return FINISH.get(self.ended.stop, "stop") if self.ended is not None else "stop"

    def begin(self) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def write(self, part: TurnPart, cursor: int) -> bytes:
        if self.is_done:
            return b""
        if self._after and not isinstance(part, TurnEnded):
            return self._pass(part)
        if isinstance(part, TextAdded):
            return self._write_text(part.text)
        match part:
            case ThinkingAdded(text=text):
                self.thinking.append(text)
                return b'%b%b},"finish_reason":null,"logprobs":null}]}\n\n' % (self._reasoning, _encode(text))
            case CallMade() | CallEnded():
                return self._chunk({"avm": _shown(part)}) if self._shows_tools else b""
            case CallWaits():
                self._waits[part.wait_id] = part
                return self._write_wait(part)
            case TurnWaits(waits=waits):
                return self._wait([self._waits[wait_id] for wait_id in waits if wait_id in self._waits])
            case AnswerEnded(usage=usage):
                self.usage += usage
                return b""
            case TurnEnded():
                return self._ended(part)
            case _:
                return b""

    def _pass(self, part: TurnPart) -> bytes:
        """Skips the parts of an earlier answer, up to the results of the calls that this one continues from."""
        if isinstance(part, CallEnded | CallWaits):
            self._after = [wait for wait in self._after if not self._follows(part, wait)]
            if not self._after:
                return self.write(part, 0)
        if isinstance(part, CallWaits):
            self._waits[part.wait_id] = part
        if isinstance(part, AnswerEnded):
            self._earlier += part.usage
        return b""

    def _follows(self, part: CallEnded | CallWaits, wait: WaitView) -> bool:
        """Returns whether the part follows on the answer to the wait: it is the call's result, or its next question."""
        if (part.call_id, part.name) != (wait.call_id, wait.tool):
            return False
        wait_ids = [seen.wait_id for seen in self._waits.values() if seen.call_id == wait.call_id]
        if isinstance(part, CallWaits):
            return wait.wait_id in wait_ids and part.wait_id != wait.wait_id
        # Of a turn that has waited for long, the log may not have the beginning.
        return not wait_ids or wait_ids[-1] == wait.wait_id

    def _write_wait(self, part: CallWaits) -> bytes:
        self._announced.add(part.wait_id)
        if part.kind == "client":
            self.calls.append(part)
            return self._chunk({"tool_calls": [{"index": len(self.calls) - 1, **tool_call(part)}]})
        if is_asked(part):
            # The next message of the user answers it.
            return self._write_text(("\n\n" if self.text.strip() else "") + wait_text(self._words, part))
        # Somebody else decides, and the answer continues then; whoever waits for it is told why.
        return self._chunk({"reasoning_content": held_text(self._words, part) + "\n"})

    def _wait(self, waits: Sequence[CallWaits]) -> bytes:
        """The turn waits: questions of an earlier answer are asked again, and the caller answers them."""
        chunks = b"".join(self._write_wait(part) for part in waits if part.wait_id not in self._announced)
        if not any(asks_caller(part) for part in waits):
            return chunks
        self.is_done = True
        return chunks + self._end()

    def _write_text(self, text: str) -> bytes:
        self.texts.append(text)
        return b'%b%b},"finish_reason":null,"logprobs":null}]}\n\n' % (self._content, _encode(text))

    def _ended(self, part: TurnEnded) -> bytes:
        self.ended, self.is_done = part, True
        self.usage = part.usage - self._earlier
        # Calls that nobody will answer any more.
        self.calls.clear()
        if part.outcome == "failed":
            code, message = part.error or ("internal", "The turn failed")
            return b"data: %b\n\n" % _encode(about(500, code, message))
        return self._end()

    def _end(self) -> bytes:
        last = self._chunk({}, self.finish)
        if self._with_usage:
            last += b'%b[],"usage":%b}\n\n' % (self._head, _encode(usage_of(self.usage)))
        return last + DONE

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return b"%b%b}\n\n" % (self._head, _encode([choice]))


def completion(chunks: ChatChunks, completion_id: str, model: str, created: int) -> dict[str, Any]:
    """Returns the answer in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": chunks.text, "refusal": None}
    if chunks.thinking:
        message["reasoning_content"] = "".join(chunks.thinking)
    if chunks.calls:
        message["tool_calls"] = [tool_call(call) for call in chunks.calls]
        message["content"] = chunks.text or None
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": chunks.finish, "logprobs": None}],
        "usage": usage_of(chunks.usage),
    }


def tool_call(call: CallWaits) -> dict[str, Any]:
    """Returns a call of the caller's own tool."""
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": _encode(call.input).decode()}}


def _shown(part: CallMade | CallEnded) -> dict[str, Any]:
    if isinstance(part, CallMade):
        return {"tool_call": {"id": part.call_id, "name": part.name, "input": part.input}}
    return {"tool_result": {"id": part.call_id, "name": part.name, "output": part.text, "is_error": part.is_error}}
