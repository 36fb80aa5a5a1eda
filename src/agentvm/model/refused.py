"""Refused part — a part of a session that a provider refuses, and that models see as a note instead."""

from typing import NamedTuple

from agentvm.model.ids import MessageId


class RefusedPart(NamedTuple):
    """A part of a user's message by its number; without one all of a message, and the tool calls that it made."""

    message_id: MessageId
    part: int | None = None
