"""Limits — the settings of turns and agents: bounds, defaults and summaries."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from agentvm.model.attachment import ATTACHMENT_MAX_BYTES
from agentvm.model.money import to_nano
from agentvm.model.setting import Amount, Count, Group, Milliseconds, PositiveSeconds, Seconds, Text, setting

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Upper bound of `limits.messageBytes`: a frame holds no more."""

MAX_INLINE_BYTES = 32 * 1024 * 1024
"""Upper bound of `limits.inlineBytes`: a frame holds no more."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Defaults(Group):
    """Defaults of model calls."""

    timeout: Annotated[
        Milliseconds, setting("Time without output, in ms, after which a provider's call is cancelled.", tenant="lower")
    ] = 30_000
    max_tokens: Annotated[Amount, setting("Maximum tokens of one answer, unless the image sets another.", tenant="any")] = 4_096

    @property
    def timeout_seconds(self) -> float:
        return self.timeout / 1000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Limits(Group):
    """Bounds that keep one user from costing the others."""

    inbox: Annotated[Count, setting("Messages that may wait for one agent.")] = 32
    attempts: Annotated[Count, setting("Attempts of a turn that was interrupted by a crash of the server.")] = 3
    steps: Annotated[Count, setting("Model calls of one turn.", tenant="lower")] = 25
    turn_tokens: Annotated[Amount, setting("Tokens of one turn, input and output of all its model calls.", tenant="lower")] = (
        2_000_000
    )
    turn_cost: Annotated[
        Decimal, setting("Maximum cost of one turn in dollars; a model without a price counts as free.", tenant="lower")
    ] = Decimal(5)
    repeats: Annotated[Count, setting("Calls of one tool with identical input in one turn.", tenant="lower")] = 10
    turn_seconds: Annotated[PositiveSeconds, setting("Duration of one turn, and of one model call.", tenant="lower")] = 600.0
    stop_seconds: Annotated[Seconds, setting("Time that stopping an agent waits for its turn to end.")] = 10.0
    log_days: Annotated[
        Annotated[float, Meta(ge=0, le=36_500)],
        setting("Time that events can be replayed from a cursor; for messages see `retention`."),
    ] = 7.0
    tool_output: Annotated[Amount, setting("Characters of a tool's result that the model receives.", tenant="lower")] = 100_000
    tool_calls: Annotated[Count, setting("Tool calls of one turn.", tenant="lower")] = 200
    tool_parallel: Annotated[Count, setting("Tool calls of one turn that run at the same time.", tenant="lower")] = 8
    tool_seconds: Annotated[
        PositiveSeconds,
        setting("Time of one tool call whose progress moves its deadline, and of all tool calls of a turn.", tenant="lower"),
    ] = 600.0
    agent_depth: Annotated[Count, setting("Levels of sub-agents below an agent.", tenant="lower")] = 3
    agent_calls: Annotated[Count, setting("Sub-agents that one turn may call.", tenant="lower")] = 16
    agent_parallel: Annotated[Count, setting("Sub-agents of one turn that run at the same time.", tenant="lower")] = 4
    log_bytes: Annotated[Amount, setting("Size of the event log of all sessions; the oldest events are deleted first.")] = (
        10 * 1024**3
    )
    disk_free: Annotated[Amount, setting("Free disk space in bytes below which `/v1/status` warns.")] = 1024**3
    idle_seconds: Annotated[PositiveSeconds, setting("Idle time after which an agent is unloaded from memory.")] = 300.0
    undo_seconds: Annotated[Seconds, setting("Time that a deleted session can be restored.")] = 7 * 86_400.0
    attachment_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=ATTACHMENT_MAX_BYTES)], setting("Size of one uploaded file.", tenant="lower")
    ] = 20 * 1024**2
    attachments_per_message: Annotated[Count, setting("Uploaded files that one message may refer to.", tenant="lower")] = 20
    message_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_MESSAGE_BYTES)], setting("Size of the text of one message.", tenant="lower")
    ] = MAX_MESSAGE_BYTES
    inline_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_INLINE_BYTES)],
        setting("Size of the images and files inside one message, as base64, without uploaded ones.", tenant="lower"),
    ] = MAX_INLINE_BYTES
    import_bytes: Annotated[
        Annotated[int, Meta(ge=1, le=64 * 1024**3)], setting("Size of one import, unpacked.", tenant="lower")
    ] = 1024**3
    session_files: Annotated[Count, setting("Files that one session may have.", tenant="lower")] = 10_000
    file_versions: Annotated[
        Count, setting("Earlier states of one file of a session; the oldest are deleted first.", tenant="lower")
    ] = 100
    session_files_bytes: Annotated[Amount, setting("Size of all files of one session.", tenant="lower")] = 100 * 1024**2
    agents: Annotated[Amount, setting("Idle agents in memory; the longest idle are unloaded first.")] = 20_000

    @property
    def turn_cost_nano(self) -> int:
        """The maximum cost of a turn in nano-dollars."""
        return to_nano(self.turn_cost)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Compaction(Group):
    """Summaries that keep long histories short for the model: see `agentvm.sessions.compaction`."""

    by: Annotated[
        Literal["model", "off"],
        setting("Treatment of long histories: summarized by a billed model call, or the oldest left out.", tenant="any"),
    ] = "model"
    share: Annotated[
        Annotated[float, Meta(ge=0.1, le=1)],
        setting("Share of the model's context for a history that is filled before it is summarized.", tenant="any"),
    ] = 0.6
    keep: Annotated[
        Annotated[int, Meta(ge=1, le=1_000)],
        setting("Newest exchanges that are never summarized; fewer if they fill half of that context.", tenant="any"),
    ] = 6
    max_tokens: Annotated[Annotated[int, Meta(ge=50, le=100_000)], setting("Tokens of one summary.", tenant="any")] = 1_000
    model: Annotated[
        Text | None,
        setting("Model that writes summaries, as an image names its model.", tenant="any", unset="the model of the session"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MemorySettings(Group):
    """Memories of containers."""

    by: Annotated[
        Literal["tool", "after-turn", "off"],
        setting(
            "Who writes memories: agents with the tool `remember`, also a billed model call after each turn, or nobody.",
            tenant="any",
        ),
    ] = "tool"
