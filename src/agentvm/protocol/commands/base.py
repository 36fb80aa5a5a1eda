"""Base — what every command and every reply has."""

from typing import ClassVar

from agentvm.protocol.requests import R_co, Reply, Request, SubscribingReply

__all__ = ["Command", "R_co", "Reply", "SubscribingReply"]


class Command(Request[R_co]):
    """A request's data. `name` is its type without `_request`."""

    name: ClassVar[str]
    reply_type: ClassVar[type[Reply]]
