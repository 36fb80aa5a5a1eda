"""Errors as events — a command that failed, a model that failed."""

from typing import Literal

from agentvm.events.base import EventData


class CommandError(EventData):
    """A command could not be carried out. Sent only to the peer whose command failed."""

    type = "system_error"
    source = "command"
    category = "error"
    message: str
    severity: Literal["info", "warn", "error", "fatal"]
    code: str
    request_id: str | None = None


class ErrorReceived(EventData):
    type = "error_received"
    source = "agent"
    category = "state"
    message: str
    error_code: str


class ErrorOccurred(EventData):
    """The turn failed; last of its three error events, the one that takes user interfaces out of "loading"."""

    type = "error_occurred"
    source = "agent"
    category = "state"
    code: str
    message: str
    recoverable: bool
