"""Limits — what one turn, or one agent, may use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds that keep one user from costing the others."""

    inbox: int = 32
    attempts: int = 3
    """How often a turn that died with its process is begun again."""
    steps: int = 25
    """Model calls per turn."""
    turn_seconds: float = 600.0
    max_tokens: int = 4_096
    stop_seconds: float = 10.0
    log_days: float = 7.0
    """How long what happened can be heard again after a cursor; messages are kept for ever."""
