"""Base — what every command and every reply has."""

from typing import ClassVar, Generic, TypeVar

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import SessionId
from agentvm.protocol.bounds import Bound

COMMAND_BOUND = Bound(max_bytes=1024 * 1024, max_values=50_000)
"""Enough for the longest system prompt with its tools."""


class Reply(Record):
    """`error` set means the command failed; the other members then say as much as 1.x says."""

    error: str | None = None
    error_code: str | None = None


R_co = TypeVar("R_co", bound=Reply, covariant=True)


class Command(Record, Generic[R_co]):
    """A request's data. `name` is its type without `_request`."""

    name: ClassVar[str]
    reply_type: ClassVar[type[Reply]]
    bound: ClassVar[Bound] = COMMAND_BOUND
    """How much JSON its data may be."""

    def refused(self) -> Reply:
        """The reply's other members when the command fails."""
        return Reply()


class SubscribingReply(Reply):
    """Clients from 1.9 on subscribe to the sessions named here; the server already did."""

    subscriptions: tuple[SessionId, ...] | None = msgspec.field(default=None, name="__subscriptions")
