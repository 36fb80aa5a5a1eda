"""Chat chunks — the parts of a turn as chunks of a chat completion, or as one object. Pure."""

from collections.abc import Collection
from typing import Any

import msgspec

from agentvm.gateways.openai.errors import about
from agentvm.gateways.turn_parts import (
    CallEnded,
    CallMade,
    CallWaits,
    SaidText,
    SaidThinking,
    TurnEnded,
    TurnPart,
    TurnWaits,
)
from agentvm.gateways.words import EN, Words, held_text, is_asked, wait_text
from agentvm.model.usage import Usage
from agentvm.model.wait import WaitId

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
    """Writes a turn as chunks, and remembers what was said. Also used for an answer in one piece."""

    def __init__(
        self,
        completion_id: str,
        model: str,
        created: int,
        *,
        with_usage: bool = False,
        shows_tools: bool = False,
        words: Words = EN,
        after: WaitId | None = None,
        unanswered: Collection[WaitId] = (),
    ) -> None:
        """`after` is the wait that the turn goes on from; of those beside it, `unanswered` ones are asked again."""
        self._after, self._unanswered = after, unanswered
        self._with_usage, self._shows_tools, self._words = with_usage, shows_tools, words
        self._is_asked = False
        head = {"id": completion_id, "object": "chat.completion.chunk", "created": created, "model": model}
        # Everything but the delta is the same for each chunk.
        self._head = b"data: " + _encode(head)[:-1] + b',"choices":'
        self._content = self._head + b'[{"index":0,"delta":{"content":'
        self._reasoning = self._head + b'[{"index":0,"delta":{"reasoning_content":'
        self.texts: list[str] = []
        self.thinking: list[str] = []
        self.calls: list[CallWaits] = []
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
        if self._after is not None and not isinstance(part, TurnEnded):
            return self._pass(part)
        if isinstance(part, SaidText):
            return self._say(part.text)
        match part:
            case SaidThinking(text=text):
                self.thinking.append(text)
                return b'%b%b},"finish_reason":null,"logprobs":null}]}\n\n' % (self._reasoning, _encode(text))
            case CallMade() | CallEnded():
                return self._chunk({"avm": _shown(part)}) if self._shows_tools else b""
            case CallWaits(kind="client"):
                self.calls.append(part)
                return self._chunk({"tool_calls": [{"index": len(self.calls) - 1, **tool_call(part)}]})
            case CallWaits() if is_asked(part):
                # The next message of the user answers it.
                self._is_asked = True
                return self._say(("\n\n" if self.text.strip() else "") + wait_text(self._words, part))
            case CallWaits():
                # Somebody else decides, and the answer goes on then; whoever waits for it is told why.
                return self._chunk({"reasoning_content": held_text(self._words, part) + "\n"})
            case TurnWaits() if self.calls or self._is_asked:
                self.is_done = True
                return self._end(None)
            case TurnEnded():
                return self._ended(part)
            case _:
                return b""

    def _pass(self, part: TurnPart) -> bytes:
        """Passes over what an earlier answer has told, up to the wait that the turn goes on from."""
        if isinstance(part, CallWaits) and part.wait_id in self._unanswered:
            self._is_asked = True
            return self._say(wait_text(self._words, part))
        if isinstance(part, TurnWaits) and self._after in part.waits:
            self._after = None
            return self.write(part, 0) if self._is_asked else b""
        return b""

    def _say(self, text: str) -> bytes:
        self.texts.append(text)
        return b'%b%b},"finish_reason":null,"logprobs":null}]}\n\n' % (self._content, _encode(text))

    def _ended(self, part: TurnEnded) -> bytes:
        self.ended, self.is_done = part, True
        # Calls that nobody will answer any more.
        self.calls.clear()
        if part.outcome == "failed":
            code, message = part.error or ("internal", "The turn failed")
            return b"data: %b\n\n" % _encode(about(500, code, message))
        return self._end(part.usage)

    def _end(self, usage: Usage | None) -> bytes:
        last = self._chunk({}, self.finish)
        if self._with_usage:
            counted = _encode(usage_of(usage or Usage(input_tokens=0, output_tokens=0)))
            last += b'%b[],"usage":%b}\n\n' % (self._head, counted)
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
    usage = chunks.ended.usage if chunks.ended is not None else Usage(input_tokens=0, output_tokens=0)
    return {
        "id": completion_id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": chunks.finish, "logprobs": None}],
        "usage": usage_of(usage),
    }


def tool_call(call: CallWaits) -> dict[str, Any]:
    """Returns a call of the caller's own tool."""
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": _encode(call.input).decode()}}


def _shown(part: CallMade | CallEnded) -> dict[str, Any]:
    if isinstance(part, CallMade):
        return {"tool_call": {"id": part.call_id, "name": part.name, "input": part.input}}
    return {"tool_result": {"id": part.call_id, "name": part.name, "output": part.text, "is_error": part.is_error}}
