"""Spans — a turn, its model calls and its tools in a trace: names and attributes by OpenTelemetry's conventions. Pure."""

import re
from dataclasses import dataclass, field
from hashlib import sha256

from agentvm.model.ids import TurnId
from agentvm.model.usage import Usage

_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
"""The form of ids; a tool call with another id may hold any text."""

Plain = str | int | float | bool | tuple[str, ...]


@dataclass(slots=True)
class Span:
    """One span. Times are in ms."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start: int
    end: int
    attributes: dict[str, Plain]
    error: str | None = None
    """The error code."""
    remote: bool = False
    """Whether it is a call to another process."""
    moments: list[tuple[str, int, dict[str, Plain]]] = field(default_factory=list)


@dataclass(slots=True)
class TracedCall:
    """A model call that has ended, or whose turn has."""

    call_id: str
    provider: str
    """The configured name of the provider."""
    model: str
    answered_by: str
    asked_at: int | None
    """None for a call that was cut off by a crash: its start is not known."""
    attempt: int = 1
    first_at: int | None = None
    stopped_at: int | None = None
    ended_at: int | None = None
    stop: str | None = None
    interrupted: bool = False
    usage: Usage | None = None
    error: str | None = None


class TracedTool:
    """A tool call that has completed or failed."""

    __slots__ = ("ended_at", "failed", "name", "started_at", "tool_id")

    def __init__(self, tool_id: str, name: str, started_at: int, ended_at: int, *, failed: bool) -> None:
        self.tool_id, self.name, self.failed = tool_id, name, failed
        self.started_at, self.ended_at = started_at, ended_at


def chat(turn_id: TurnId, session_id: str, call: TracedCall, *, provider: str, at: int) -> Span:
    """Returns the span of a model call. `provider` is its driver; `at` its end if it is not known."""
    attributes: dict[str, Plain] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": call.model,
        "gen_ai.request.stream": True,
        "gen_ai.response.model": call.answered_by,
        "gen_ai.conversation.id": session_id,
        "agentvm.provider": call.provider,
        "agentvm.turn.id": turn_id,
        "agentvm.message.id": call.call_id,
    }
    if call.usage is not None:
        attributes |= tokens(call.usage)
    if call.stop is not None and not call.interrupted:
        attributes["gen_ai.response.finish_reasons"] = (call.stop,)
    if call.interrupted:
        attributes["agentvm.outcome"] = "interrupted"
    if call.first_at is not None and call.asked_at is not None:
        attributes["gen_ai.response.time_to_first_chunk"] = max(0, call.first_at - call.asked_at) / 1000
    if call.attempt > 1:
        attributes["agentvm.attempt"] = call.attempt
    end = call.ended_at or at
    return Span(
        name=f"chat {call.model}",
        trace_id=trace_of(turn_id),
        span_id=span_of(turn_id, call.call_id),
        parent_id=span_of(turn_id),
        start=end if call.asked_at is None else call.asked_at,
        end=end,
        attributes=attributes,
        error=call.error,
        remote=True,
    )


def until(end: int, span: Span) -> Span:
    """Returns the span, cut at `end`."""
    span.start, span.end = min(span.start, end), min(span.end, end)
    return span


def execution(turn_id: TurnId, tool: TracedTool) -> Span:
    """Returns the span of a tool call."""
    return Span(
        name=f"execute_tool {tool.name}",
        trace_id=trace_of(turn_id),
        span_id=span_of(turn_id, tool.tool_id),
        parent_id=span_of(turn_id),
        start=tool.started_at,
        end=tool.ended_at,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool.name,
            "gen_ai.tool.type": "function",
            "agentvm.turn.id": turn_id,
            **({"gen_ai.tool.call.id": tool.tool_id} if _ID.fullmatch(tool.tool_id) else {}),
        },
        error="tool_failed" if tool.failed else None,
    )


def tokens(usage: Usage) -> dict[str, Plain]:
    """Returns the token attributes. By the conventions cached tokens count as input, too."""
    attributes: dict[str, Plain] = {
        "gen_ai.usage.input_tokens": usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cache_read_tokens:
        attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        attributes["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
    if usage.thinking_tokens:
        attributes["gen_ai.usage.reasoning.output_tokens"] = usage.thinking_tokens
    if usage.estimated:
        attributes["agentvm.usage_estimated"] = True
    return attributes


def trace_of(turn_id: str) -> int:
    """The trace of a turn: the first 16 bytes of the SHA-256 of its id."""
    return int.from_bytes(sha256(turn_id.encode()).digest()[:16]) or 1


def span_of(turn_id: str, step: str = "") -> int:
    """The span of a turn, or of one of its calls and tools: the first 8 bytes of the SHA-256 of `<turn>/<step>`."""
    return int.from_bytes(sha256(f"{turn_id}/{step}".encode()).digest()[:8]) or 1
