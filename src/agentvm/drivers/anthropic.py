"""Anthropic — the driver for Claude: the official SDK sends, our decoder reads the events of the Messages API.

The SDK retries before the first output only: 408, 409, 429, 5xx and failed connections, `max_retries` times, waiting as
Retry-After says (our cap is `failures.RETRY_AFTER_MAX_SECONDS`; the SDK has none worth the name) or 0.5 to 8 s.

Redacted thinking is a thinking block without text whose signature is `redacted:<data>`; it goes back unchanged.
"""

import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec

from agentvm.drivers.anthropic_blocks import BlockKeeper, is_result, shown_result
from agentvm.drivers.anthropic_body import messages_body, origins, redacted_mark
from agentvm.drivers.base import (
    DriverSettings,
    MessageStarted,
    MessageStopped,
    ModelOutput,
    Prompt,
    ProviderContentReported,
    ProviderResult,
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
from agentvm.drivers.exchange import CallIds
from agentvm.drivers.failures import Failures, find_error
from agentvm.drivers.refusal import MessageOrigin
from agentvm.drivers.sdk import SdkDriver, StreamedResponse, client_options, host_of, key_remedy, open_sdk
from agentvm.model.usage import Usage

DEFAULT_MODEL = "claude-sonnet-5"

# Smaller windows than the one every model since Opus 4.6 has.
_WINDOW_TOKENS = {
    "claude-haiku-4": 200_000,
    "claude-sonnet-4-2": 200_000,
    "claude-opus-4-2": 200_000,
    "claude-opus-4-5": 200_000,
    "claude-sonnet-4-5": 200_000,
    "claude-3": 200_000,
}
_DEFAULT_WINDOW_TOKENS = 1_000_000

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "pause_turn",
}


class _ThinkingDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class _ServerToolUse(msgspec.Struct):
    web_search_requests: int | None = None


class _MessageUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _ThinkingDetails | None = None
    server_tool_use: _ServerToolUse | None = None


class _Container(msgspec.Struct):
    id: str | None = None


class _MessageStart(msgspec.Struct):
    id: str = ""
    model: str = ""
    usage: _MessageUsage | None = None
    container: _Container | None = None


class _ContentBlock(msgspec.Struct):
    type: str
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    data: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class _ContentDelta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None
    container: _Container | None = None


class _RawEvent(msgspec.Struct):
    """An event with its block or delta whole, also what we do not know of it."""

    delta: dict[str, object] | None = None
    content_block: dict[str, object] | None = None


class _Event(msgspec.Struct):
    """Every event in one shape: a type we do not know is skipped, not refused."""

    type: str
    delta: _ContentDelta | None = None
    content_block: _ContentBlock | None = None
    message: _MessageStart | None = None
    usage: _MessageUsage | None = None
    error: object = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_raw = msgspec.json.Decoder(_RawEvent).decode


class MessagesDecoder:
    """Decodes one answer of the Messages API. `keeps_blocks` for one in which the provider may run tools."""

    def __init__(self, failures: Failures, *, model: str, keeps_blocks: bool = False) -> None:
        self._failures = failures
        self._keeper = BlockKeeper(failures.provider) if keeps_blocks else None
        self._result: dict[str, object] | None = None
        """A result of the provider's own tool, whose block is open."""
        self._model = model
        self._ids = CallIds()
        self._begun = False
        self._block: _ContentBlock | None = None
        self._signature = ""
        self._whole_input = ""
        self._usage = Usage(input_tokens=0, output_tokens=0)
        self._stop_reason: str | None = None
        self.finished = False

    def feed(self, data: str) -> Iterable[ModelOutput]:
        event = _decode_event(data)
        if self._keeper is not None:
            self._keep(self._keeper, event, data)
        match event.type:
            case "content_block_delta" if event.delta is not None:
                return self._delta(event.delta)
            case "content_block_start" if event.content_block is not None:
                return (*self._close_block(), *self._open_block(event.content_block))
            case "content_block_stop":
                return tuple(self._close_block())
            case "message_start" if event.message is not None:
                return self._start(event.message)
            case "message_delta":
                return self._message_delta(event)
            case "message_stop":
                return self._stop()
            case "error":
                raise self._failures.reported(find_error({"error": event.error}))
            case _:
                return ()

    def _keep(self, keeper: BlockKeeper, event: _Event, data: str) -> None:
        match event.type:
            case "content_block_start" if (block := _decode_raw(data).content_block) is not None:
                keeper.open(block)
                self._result = block if is_result(block) else None
            case "content_block_delta" if self._block is not None and (delta := _decode_raw(data).delta) is not None:
                keeper.grow(delta)
            case "content_block_stop":
                keeper.close()
            case "message_start" | "message_delta":
                told = event.message or event.delta
                if told is not None and told.container is not None and told.container.id:
                    keeper.container = told.container.id
            case _:
                pass

    def end(self) -> Iterable[ModelOutput]:
        raise self._failures.protocol("the stream ended before the message did")

    def _start(self, message: _MessageStart) -> Iterable[ModelOutput]:
        if self._begun:
            raise self._failures.protocol("two messages in one answer")
        self._begun = True
        started = MessageStarted(message.id or f"msg_{secrets.token_hex(12)}", message.model or self._model)
        if message.usage is None:
            return (started,)
        # Reported now as well: the prompt is billed even if the caller does not wait for the end.
        self._usage = _merge(self._usage, message.usage)
        return started, UsageReported(self._usage)

    def _open_block(self, block: _ContentBlock) -> Iterable[ModelOutput]:
        if not self._begun:
            raise self._failures.protocol("content before the message began")
        self._block, self._signature, self._whole_input = block, "", ""
        match block.type:
            case "text":
                return (TextStarted(), TextChunk(block.text)) if block.text else (TextStarted(),)
            case "thinking":
                return (ThinkingStarted(), ThinkingChunk(block.thinking)) if block.thinking else (ThinkingStarted(),)
            case "redacted_thinking":
                self._signature = redacted_mark(block.data)
                return (ThinkingStarted(),)
            case "tool_use":
                self._whole_input = bytes(block.input).decode()
                return (ToolCallStarted(self._ids.take(block.id), block.name),)
            case "server_tool_use" if self._is_call(block):
                self._whole_input = bytes(block.input).decode()
                return (ToolCallStarted(self._ids.take(block.id), block.name, by_provider=True),)
            case _:
                return ()

    def _delta(self, delta: _ContentDelta) -> Iterable[ModelOutput]:
        block = self._block
        if block is None:
            raise self._failures.protocol("a delta outside a block")
        match block.type, delta.type:
            case "text", "text_delta" if delta.text:
                return (TextChunk(delta.text),)
            case "thinking", "thinking_delta" if delta.thinking:
                return (ThinkingChunk(delta.thinking),)
            case "thinking", "signature_delta":
                self._signature += delta.signature
            case _, "input_json_delta" if delta.partial_json and self._is_call(block):
                self._whole_input = ""
                return (ToolInputChunk(delta.partial_json),)
        return ()

    def _is_call(self, block: _ContentBlock) -> bool:
        return block.type == "tool_use" or (block.type == "server_tool_use" and self._keeper is not None)

    def _close_block(self) -> Iterator[ModelOutput]:
        block, self._block = self._block, None
        if block is None:
            return
        match block.type:
            case "text":
                yield TextStopped()
            case "thinking" | "redacted_thinking":
                yield ThinkingStopped(signature=self._signature or None)
            case _ if self._is_call(block):
                if self._whole_input:
                    yield ToolInputChunk(self._whole_input)
                yield ToolCallStopped()
            case _ if (result := self._result) is not None:
                self._result = None
                value, is_error = shown_result(result)
                yield ProviderResult(str(result["tool_use_id"]), value, is_error)
            case _:
                return

    def _message_delta(self, event: _Event) -> Iterable[ModelOutput]:
        if event.delta is not None and event.delta.stop_reason is not None:
            self._stop_reason = event.delta.stop_reason
        if event.usage is not None:
            self._usage = _merge(self._usage, event.usage)
        return ()

    def _stop(self) -> Iterable[ModelOutput]:
        if not self._begun:
            raise self._failures.protocol("an empty stream")
        self.finished = True
        reason = _STOP_REASONS.get(self._stop_reason or "", "end_turn")
        content = None if self._keeper is None else self._keeper.content()
        kept = () if content is None else (ProviderContentReported(content),)
        return (*self._close_block(), *kept, UsageReported(self._usage), MessageStopped(reason))


def _merge(usage: Usage, update: _MessageUsage) -> Usage:
    """Counts are cumulative, and a count left out has not changed; one below zero says nothing."""

    def newest(now: int | None, before: int) -> int:
        return before if now is None or now < 0 else now

    details, own = update.output_tokens_details, update.server_tool_use
    return Usage(
        input_tokens=newest(update.input_tokens, usage.input_tokens),
        output_tokens=newest(update.output_tokens, usage.output_tokens),
        cache_read_tokens=newest(update.cache_read_input_tokens, usage.cache_read_tokens),
        cache_write_tokens=newest(update.cache_creation_input_tokens, usage.cache_write_tokens),
        thinking_tokens=newest(details.thinking_tokens if details else None, usage.thinking_tokens),
        web_searches=newest(own.web_search_requests if own else None, usage.web_searches),
    )


class AnthropicDriver(SdkDriver):
    """Claude."""

    name = "anthropic"

    def context_window(self, model: str) -> int:
        return next((window for prefix, window in _WINDOW_TOKENS.items() if model.startswith(prefix)), _DEFAULT_WINDOW_TOKENS)

    def request(self, prompt: Prompt) -> tuple[AbstractAsyncContextManager[StreamedResponse], MessagesDecoder]:
        create = self._client.messages.with_streaming_response.create
        keeps_blocks = bool(prompt.provider_tools)
        decoder = MessagesDecoder(self._failures, model=prompt.model, keeps_blocks=keeps_blocks)
        return create(**messages_body(prompt, self._failures)), decoder

    def origins(self, prompt: Prompt) -> Sequence[MessageOrigin]:
        return origins(prompt, self._failures.provider)


@asynccontextmanager
async def open_driver(settings: DriverSettings) -> AsyncIterator[AnthropicDriver]:
    """Opens Anthropic's API, or a compatible one at `settings.base_url`."""
    failures = Failures(
        provider=settings.name or "anthropic",
        remedy_key=key_remedy(settings, "anthropic", "check LLM_API_KEY or ANTHROPIC_API_KEY"),
        remedy_reach="try again; if it persists, the operator finds the cause in the server's log",
        secret=settings.api_key,
        address=host_of(settings.base_url),
    )
    async with open_sdk("anthropic", settings) as (sdk, pool):
        client = sdk.module.AsyncAnthropic(**client_options(settings, pool, no_key=""))
        yield AnthropicDriver(sdk, client, settings, failures, DEFAULT_MODEL)
