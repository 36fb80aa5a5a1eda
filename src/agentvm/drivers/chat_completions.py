"""Chat completions — the wire shape that OpenAI began and DeepSeek, OpenRouter, Ollama, vLLM and llama.cpp speak.

A body is built from a prompt; a decoder turns the chunks of the answer into outputs. Neither does I/O.

Theory of the decoder. Text and reasoning arrive one after the other, but the arguments of parallel tool calls may interleave,
and no chunk says that a call is complete before the message is. So the first call streams as it comes, and chunks for another
block wait until the message ends.

Usage: `input_tokens` counts tokens at full price; tokens read from the provider's cache are only in `cache_read_tokens`,
although the wire counts them in both. Reasoning is part of `output_tokens`.
"""

import secrets
from collections.abc import Iterable, Iterator

import msgspec

from agentvm.drivers.base import (
    MessageStarted,
    MessageStopped,
    ModelOutput,
    StopReason,
    TextChunk,
    TextStarted,
    TextStopped,
    ThinkingChunk,
    ThinkingStarted,
    ThinkingStopped,
    ToolCallStarted,
    ToolCallStopped,
    ToolInputChunk,
    UsageReported,
)
from agentvm.drivers.chat_body import reasoning_mark
from agentvm.drivers.exchange import CallIds
from agentvm.drivers.failures import Failures, Reported, find_error
from agentvm.model.usage import Usage

DONE = "[DONE]"

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


# DeepSeek and OpenRouter: the answer was broken off, and is incomplete.
_BROKEN_OFF = frozenset({"insufficient_system_resource", "error"})


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class ChoiceDelta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: ChoiceDelta | None = None
    finish_reason: str | None = None


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class CompletionUsage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _InputDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class CompletionChunk(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: CompletionUsage | None = None
    error: object = None


decode_chunk = msgspec.json.Decoder(CompletionChunk).decode


class _TextBlock:
    started: ModelOutput = TextStarted()
    stopped: ModelOutput = TextStopped()
    delta = TextChunk

    def __init__(self) -> None:
        self.waiting: list[str] = []


class _ThinkingBlock:
    started: ModelOutput = ThinkingStarted()
    delta = ThinkingChunk

    def __init__(self, field: str) -> None:
        self.waiting: list[str] = []
        self.stopped: ModelOutput = ThinkingStopped(signature=reasoning_mark(field))


class _CallBlock:
    stopped: ModelOutput = ToolCallStopped()
    delta = ToolInputChunk

    def __init__(self, wire_id: str | None, call_id: str, name: str) -> None:
        self.waiting: list[str] = []
        self.wire_id = wire_id
        self.empty = True
        self.started: ModelOutput = ToolCallStarted(call_id, name)


_OpenBlock = _TextBlock | _ThinkingBlock | _CallBlock


class ChatDecoder:
    """Decodes one answer. `prompt_tokens` is the estimate to report when the provider does not count."""

    def __init__(self, failures: Failures, *, model: str, prompt_tokens: int) -> None:
        self._failures = failures
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._ids = CallIds()
        self._begun = False
        self._open: _OpenBlock | None = None
        self._later: list[_OpenBlock] = []
        self._calls: dict[int, _CallBlock] = {}
        self._last_call: _CallBlock | None = None
        self._finish: str | None = None
        self._refused = False
        self._usage: Usage | None = None
        self._output_bytes = 0
        self.finished = False

    def feed(self, data: str) -> Iterable[ModelOutput]:
        if data == DONE:
            return self._close()
        chunk = decode_chunk(data)
        if chunk.error is not None:
            raise self._failures.reported(find_error({"error": chunk.error}))
        outputs: list[ModelOutput] = []
        if not self._begun:
            self._begun = True
            outputs.append(MessageStarted(chunk.id or f"msg_{secrets.token_hex(12)}", chunk.model or self._model))
        if chunk.usage is not None:
            self._usage = read_usage(chunk.usage)
        for choice in chunk.choices or ():
            if choice.index == 0:
                self._finish = choice.finish_reason or self._finish
                if choice.delta is not None:
                    self._read(choice.delta, outputs)
        return outputs

    def end(self) -> Iterable[ModelOutput]:
        if self._finish is None:
            raise self._failures.protocol("the stream ended before the message did")
        return self._close()

    def _read(self, delta: ChoiceDelta, outputs: list[ModelOutput]) -> None:
        if delta.reasoning_content or delta.reasoning:
            field = "reasoning_content" if delta.reasoning_content else "reasoning"
            block = self._current(_ThinkingBlock) or _ThinkingBlock(field)
            self._add(block, delta.reasoning_content or delta.reasoning or "", outputs)
        if delta.content:
            self._add(self._current(_TextBlock) or _TextBlock(), delta.content, outputs)
        if delta.refusal:
            self._refused = True
            self._add(self._current(_TextBlock) or _TextBlock(), delta.refusal, outputs)
        for part in delta.tool_calls or ():
            call = self._find_call(part)
            arguments = (part.function.arguments if part.function else None) or ""
            call.empty = call.empty and not arguments
            self._add(call, arguments, outputs)

    def _current(self, kind: type[_TextBlock] | type[_ThinkingBlock]) -> _OpenBlock | None:
        """The block that text or reasoning continues in: the open one, or the last that waits behind a call."""
        candidate = self._later[-1] if self._later else self._open
        return candidate if isinstance(candidate, kind) else None

    def _find_call(self, part: _ToolCall) -> _CallBlock:
        open_call = self._last_call if part.index is None else self._calls.get(part.index)
        name = part.function.name if part.function else None
        # A name together with another id begins a call, also at an index already used: not every server counts.
        if open_call is not None and not (name and part.id and part.id != open_call.wire_id):
            return open_call
        if not name:
            raise self._failures.protocol("a tool call without a name")
        call = _CallBlock(part.id, self._ids.take(part.id), name)
        self._calls[len(self._calls) if part.index is None else part.index] = call
        self._last_call = call
        return call

    def _add(self, block: _OpenBlock, text: str, outputs: list[ModelOutput]) -> None:
        self._output_bytes += len(text.encode())
        if block is not self._open:
            if isinstance(self._open, _CallBlock):
                if block not in self._later:
                    self._later.append(block)
                block.waiting.append(text)
                return
            if self._open is not None:
                outputs.append(self._open.stopped)
            self._open = block
            outputs.append(block.started)
        if text:
            outputs.append(block.delta(text))

    def _close(self) -> Iterable[ModelOutput]:
        self.finished = True
        if not self._begun:
            raise self._failures.protocol("an empty stream")
        if self._finish in _BROKEN_OFF:
            raise self._failures.reported(Reported(f"finish_reason {self._finish}", "server_error"))
        usage = UsageReported(self._usage or self._estimate())
        return (*self._finish_blocks(), usage, MessageStopped(self._stop_reason()))

    def _finish_blocks(self) -> Iterator[ModelOutput]:
        if self._open is not None:
            if isinstance(self._open, _CallBlock) and self._open.empty:
                yield ToolInputChunk("{}")
            yield self._open.stopped
        for block in self._later:
            yield block.started
            text = "".join(block.waiting) or ("{}" if isinstance(block, _CallBlock) else "")
            yield block.delta(text)
            yield block.stopped

    def _stop_reason(self) -> StopReason:
        reason = _STOP_REASONS.get(self._finish or "", "end_turn")
        if self._refused:
            return "refusal"
        # Ollama says "stop" after tool calls; others say "tool_calls" after none.
        if reason in ("end_turn", "tool_use"):
            return "tool_use" if self._last_call is not None else "end_turn"
        return reason

    def _estimate(self) -> Usage:
        return Usage(input_tokens=self._prompt_tokens, output_tokens=-(-self._output_bytes // 4), estimated=True)


def read_usage(usage: CompletionUsage) -> Usage:
    """A negative count is ignored: no provider pays for answering."""
    read, cache_written, thought = 0, 0, 0
    if usage.prompt_tokens_details is not None:
        read = max(0, usage.prompt_tokens_details.cached_tokens or 0)
        cache_written = max(0, usage.prompt_tokens_details.cache_write_tokens or 0)
    if usage.completion_tokens_details is not None:
        thought = max(0, usage.completion_tokens_details.reasoning_tokens or 0)
    return Usage(
        input_tokens=max(0, usage.prompt_tokens - read - cache_written),
        output_tokens=max(0, usage.completion_tokens),
        cache_read_tokens=read,
        cache_write_tokens=cache_written,
        thinking_tokens=thought,
    )
