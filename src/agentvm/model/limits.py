"""Limits — what one turn, or one agent, may use."""

from dataclasses import dataclass
from typing import Literal

from agentvm.model.money import NANO

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
MAX_INLINE_BYTES = 32 * 1024 * 1024
"""What one message may bring at most, whatever is configured: a frame holds no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """How long histories are kept short for the model: see `agentvm.sessions.compaction`."""

    by: Literal["model", "off"] = "model"
    """With `off` no summary is made, and none goes into a prompt."""
    share: float = 0.6
    """How much of the room that a model's window has for a history may be filled before it is summarised."""
    keep: int = 6
    """How many of the newest exchanges stay word for word, unless they are too heavy."""
    max_tokens: int = 1_000
    """Of one summary."""
    model: str | None = None
    """Who writes them; None for who answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that keep one user from costing the others."""

    inbox: int = 32
    attempts: int = 3
    """How often a turn that died with its process is begun again."""
    steps: int = 25
    """Model calls per turn."""
    turn_tokens: int = 2_000_000
    """What a turn may use, in and out, of all its model calls; checked before each."""
    turn_cost: int = 5 * NANO
    """Nano-USD; a model without a price costs nothing here."""
    repeats: int = 10
    """How often a turn may call a tool with the very same input."""
    turn_seconds: float = 600.0
    max_tokens: int = 4_096
    """Of one answer, unless the image says otherwise."""
    silence_seconds: float = 30.0
    """How long a provider may be silent before its call is given up: see `agentvm.drivers.exchange`."""
    stop_seconds: float = 10.0
    log_days: float = 7.0
    """How long what happened can be heard again after a cursor; messages are kept as long as `retention` says."""
    tool_output: int = 100_000
    """Characters of a tool's result that are kept: what is beyond would fill the model's window, and every client's."""
    log_bytes: int = 10 * 1024**3
    """How much of it is kept, of all sessions together; the oldest goes first."""
    disk_free: int = 1024**3
    """Bytes left of the disk of the data below which the server warns."""
    idle_seconds: float = 300.0
    """An agent that nobody uses this long leaves memory; the next message brings it back."""
    undo_seconds: float = 7 * 86_400.0
    """How long a deleted session can be restored."""
    attachment_bytes: int = 20 * 1024 * 1024
    """Of one file that is uploaded."""
    attachments_per_message: int = 20
    """To which one message may refer."""
    message_bytes: int = MAX_MESSAGE_BYTES
    """Of the text of one message."""
    inline_bytes: int = MAX_INLINE_BYTES
    """Of the pictures and files that travel inside one message, as base64."""
    import_bytes: int = 1024**3
    """Of one import, unpacked."""
    agents: int = 20_000
    """Idle agents in memory; beyond them those that rested longest leave."""
    compaction: Compaction = Compaction()
