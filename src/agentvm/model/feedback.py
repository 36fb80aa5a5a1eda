"""Feedback — a person's rating of the answer of a turn."""

from typing import Literal

from agentvm.model.base import Record
from agentvm.model.ids import SessionId, TurnId

Rating = Literal["up", "down"]
NOTE_MAX = 2_000


class Feedback(Record):
    """A rating of a turn. `author` is a user, or a key without a user; empty while authentication is off."""

    turn_id: TurnId
    session_id: SessionId
    author: str
    rating: Rating
    note: str | None = None
    at: int
