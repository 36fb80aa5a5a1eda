"""Anthropic events — the events of the Messages API, as far as they are read here."""

import msgspec

from agentvm.model.usage import Usage


class _ThinkingDetails(msgspec.Struct):
    thinking_tokens: int | None = None


class _ServerToolUse(msgspec.Struct):
    web_search_requests: int | None = None


class MessageUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: _ThinkingDetails | None = None
    server_tool_use: _ServerToolUse | None = None


class _Container(msgspec.Struct):
    id: str | None = None


class ProviderMessage(msgspec.Struct):
    id: str = ""
    model: str = ""
    usage: MessageUsage | None = None
    container: _Container | None = None


class ContentBlock(msgspec.Struct):
    type: str
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""
    data: str = ""
    input: msgspec.Raw = msgspec.Raw(b"{}")


class ContentDelta(msgspec.Struct):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    signature: str = ""
    stop_reason: str | None = None
    container: _Container | None = None


class RawProviderEvent(msgspec.Struct):
    """An event with its whole block or delta, unknown members included."""

    delta: dict[str, object] | None = None
    content_block: dict[str, object] | None = None


class ProviderEvent(msgspec.Struct):
    """Every event in one shape: a type we do not know is skipped, not refused."""

    type: str
    delta: ContentDelta | None = None
    content_block: ContentBlock | None = None
    message: ProviderMessage | None = None
    usage: MessageUsage | None = None
    error: object = None


decode_event = msgspec.json.Decoder(ProviderEvent).decode
decode_raw = msgspec.json.Decoder(RawProviderEvent).decode


def merge_usage(usage: Usage, update: MessageUsage) -> Usage:
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
