"""Spans — what becomes of a turn, its model calls and its tools in a trace: names and attributes by the conventions. Pure."""

import re
from dataclasses import dataclass, field
from hashlib import sha256

from agentvm.model.ids import TurnId
from agentvm.model.usage import Usage

_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)
"""What ids look like; who calls a tool with something else as its id may say anything there."""

Plain = str | int | float | bool | tuple[str, ...]


@dataclass(slots=True)
class Span:
    """Something that took time, and is over. Times are in ms."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start: int
    end: int
    attributes: dict[str, Plain]
    error: str | None = None
    """The code of what went wrong."""
    remote: bool = False
    """Whether somebody else was asked, outside of this process."""
    moments: list[tuple[str, int, dict[str, Plain]]] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """A model call that is over, or whose turn is."""

    call_id: str
    provider: str
    """The operator's name for it."""
    model: str
    answered_by: str
    asked_at: int | None
    """None for one that a crash cut off: when it began was known to the process that died."""
    attempt: int = 1
    first_at: int | None = None
    stopped_at: int | None = None
    ended_at: int | None = None
    stop: str | None = None
    interrupted: bool = False
    usage: Usage | None = None
    error: str | None = None


class Tool:
    """A tool that gave its result, or failed."""

    __slots__ = ("ended_at", "failed", "name", "started_at", "tool_id")

    def __init__(self, tool_id: str, name: str, started_at: int, ended_at: int, *, failed: bool) -> None:
        self.tool_id, self.name, self.failed = tool_id, name, failed
        self.started_at, self.ended_at = started_at, ended_at


def chat(turn_id: TurnId, session_id: str, call: Call, *, provider: str, at: int) -> Span:
    """`provider` is who speaks to it; `at` its end if nobody knows a better one."""
    about: dict[str, Plain] = {
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
        about |= tokens(call.usage)
    if call.stop is not None and not call.interrupted:
        about["gen_ai.response.finish_reasons"] = (call.stop,)
    if call.interrupted:
        about["agentvm.outcome"] = "interrupted"
    if call.first_at is not None and call.asked_at is not None:
        about["gen_ai.response.time_to_first_chunk"] = max(0, call.first_at - call.asked_at) / 1000
    if call.attempt > 1:
        about["agentvm.attempt"] = call.attempt
    end = call.ended_at or at
    return Span(
        name=f"chat {call.model}",
        trace_id=trace_of(turn_id),
        span_id=span_of(turn_id, call.call_id),
        parent_id=span_of(turn_id),
        start=end if call.asked_at is None else call.asked_at,
        end=end,
        attributes=about,
        error=call.error,
        remote=True,
    )


def until(end: int, span: Span) -> Span:
    span.start, span.end = min(span.start, end), min(span.end, end)
    return span


def execution(turn_id: TurnId, tool: Tool) -> Span:
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


def tokens(used: Usage) -> dict[str, Plain]:
    """By the conventions what a cache gave or took counts as input too."""
    about: dict[str, Plain] = {
        "gen_ai.usage.input_tokens": used.input_tokens + used.cache_read_tokens + used.cache_write_tokens,
        "gen_ai.usage.output_tokens": used.output_tokens,
    }
    if used.cache_read_tokens:
        about["gen_ai.usage.cache_read.input_tokens"] = used.cache_read_tokens
    if used.cache_write_tokens:
        about["gen_ai.usage.cache_creation.input_tokens"] = used.cache_write_tokens
    if used.thinking_tokens:
        about["gen_ai.usage.reasoning.output_tokens"] = used.thinking_tokens
    if used.estimated:
        about["agentvm.usage_estimated"] = True
    return about


def trace_of(turn_id: str) -> int:
    """The trace of a turn: the first 16 bytes of the SHA-256 of its id."""
    return int.from_bytes(sha256(turn_id.encode()).digest()[:16]) or 1


def span_of(turn_id: str, step: str = "") -> int:
    """The span of a turn, or of one of its calls and tools: the first 8 bytes of the SHA-256 of `<turn>/<step>`."""
    return int.from_bytes(sha256(f"{turn_id}/{step}".encode()).digest()[:8]) or 1
