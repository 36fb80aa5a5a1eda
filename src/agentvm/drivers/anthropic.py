"""Anthropic — the driver for Claude: the official SDK sends, our decoder reads the events of the Messages API.

The SDK retries before the first output only: 408, 409, 429, 5xx and failed connections, `max_retries` times, waiting as
Retry-After says (our cap is `failures.RETRY_AFTER_MAX_SECONDS`; the SDK has none worth the name) or 0.5 to 8 s.

Redacted thinking is a thinking block without text whose signature is `redacted:<data>`; it goes back unchanged.
"""

import secrets
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from agentvm.drivers.anthropic_blocks import BlockKeeper, is_result, shown_result
from agentvm.drivers.anthropic_body import messages_body, origins, redacted_mark
from agentvm.drivers.anthropic_events import (
    ContentBlock,
    ContentDelta,
    ProviderEvent,
    ProviderMessage,
    decode_event,
    decode_raw,
    merge_usage,
)
from agentvm.drivers.anthropic_relay import RelayedMessages
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

_NAMED = ("model", "max_tokens", "messages", "stream")

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "pause_turn",
}


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
        self._block: ContentBlock | None = None
        self._signature = ""
        self._whole_input = ""
        self._usage = Usage(input_tokens=0, output_tokens=0)
        self._stop_reason: str | None = None
        self.finished = False

    def feed(self, data: str) -> Iterable[ModelOutput]:
        event = decode_event(data)
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

    def _keep(self, keeper: BlockKeeper, event: ProviderEvent, data: str) -> None:
        match event.type:
            case "content_block_start" if (block := decode_raw(data).content_block) is not None:
                keeper.open(block)
                self._result = block if is_result(block) else None
            case "content_block_delta" if self._block is not None and (delta := decode_raw(data).delta) is not None:
                keeper.grow(delta)
            case "content_block_stop":
                keeper.close()
            case "message_start" | "message_delta":
                change = event.message or event.delta
                if change is not None and change.container is not None and change.container.id:
                    keeper.container = change.container.id
            case _:
                pass

    def end(self) -> Iterable[ModelOutput]:
        raise self._failures.protocol("the stream ended before the message did")

    def _start(self, message: ProviderMessage) -> Iterable[ModelOutput]:
        if self._begun:
            raise self._failures.protocol("two messages in one answer")
        self._begun = True
        started = MessageStarted(message.id or f"msg_{secrets.token_hex(12)}", message.model or self._model)
        if message.usage is None:
            return (started,)
        # Reported now as well: the prompt is billed even if the caller does not wait for the end.
        self._usage = merge_usage(self._usage, message.usage)
        return started, UsageReported(self._usage)

    def _open_block(self, block: ContentBlock) -> Iterable[ModelOutput]:
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

    def _delta(self, delta: ContentDelta) -> Iterable[ModelOutput]:
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

    def _is_call(self, block: ContentBlock) -> bool:
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

    def _message_delta(self, event: ProviderEvent) -> Iterable[ModelOutput]:
        if event.delta is not None and event.delta.stop_reason is not None:
            self._stop_reason = event.delta.stop_reason
        if event.usage is not None:
            self._usage = merge_usage(self._usage, event.usage)
        return ()

    def _stop(self) -> Iterable[ModelOutput]:
        if not self._begun:
            raise self._failures.protocol("an empty stream")
        self.finished = True
        reason = _STOP_REASONS.get(self._stop_reason or "", "end_turn")
        content = None if self._keeper is None else self._keeper.content()
        reports = () if content is None else (ProviderContentReported(content),)
        return (*self._close_block(), *reports, UsageReported(self._usage), MessageStopped(reason))


class AnthropicDriver(SdkDriver):
    """Claude."""

    name = "anthropic"

    def context_window(self, model: str) -> int:
        return next((window for prefix, window in _WINDOW_TOKENS.items() if model.startswith(prefix)), _DEFAULT_WINDOW_TOKENS)

    def request(self, prompt: Prompt) -> tuple[AbstractAsyncContextManager[StreamedResponse], MessagesDecoder]:
        create = self._client.messages.with_streaming_response.create
        keeps_blocks = bool(prompt.provider_tools)
        decoder = MessagesDecoder(self._failures, model=prompt.model, keeps_blocks=keeps_blocks)
        body = messages_body(prompt, self._failures)
        # Versions of the SDK differ in the members that they know by name: none has the temperature any more.
        named = {name: body.pop(name) for name in _NAMED}
        return create(**named, extra_body=body), decoder

    def origins(self, prompt: Prompt) -> Sequence[MessageOrigin]:
        return origins(prompt, self._failures.provider)

    def relay_decoder(self, *, hides_usage: bool = False) -> RelayedMessages:
        return RelayedMessages(self._failures)


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
        yield AnthropicDriver(sdk, client, pool, settings, failures, DEFAULT_MODEL)
