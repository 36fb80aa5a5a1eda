"""Requests and replies — their base types."""

from collections.abc import Mapping
from typing import ClassVar, Generic, TypeVar

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import SessionId
from agentvm.model.resource import CONTENT_MAX_BYTES
from agentvm.protocol.bounds import Bound

REQUEST_BOUND = Bound(max_bytes=1024 * 1024, max_values=50_000)
"""Enough for the longest system prompt with its tools."""
RESOURCE_BOUND = Bound(max_bytes=2 * CONTENT_MAX_BYTES, max_values=200_000)
"""A resource: text in JSON, and binary parts in base64, take more than their bytes."""


class Reply(Record):
    """A reply over a WebSocket. `error` set means that the command failed; the other fields then say as much as 1.x says."""

    error: str | None = None
    error_code: str | None = None


class SubscribingReply(Reply):
    """Clients from 1.9 on subscribe to the sessions named here; the server already did."""

    subscriptions: tuple[SessionId, ...] | None = msgspec.field(default=None, name="__subscriptions")


R_co = TypeVar("R_co", covariant=True)


class Request(Record, Generic[R_co]):
    """The fields of a request. The type parameter is the type of its reply."""

    bound: ClassVar[Bound] = REQUEST_BOUND
    """How much JSON its data may be."""
    reports_ignored: ClassVar[Mapping[str, type[Record]] | None] = None
    """For a request with a field `ignored`: the types of its nested records. Unknown fields are noted there."""

    def refused(self) -> Reply:
        """The reply's other fields when a command fails."""
        return Reply()
