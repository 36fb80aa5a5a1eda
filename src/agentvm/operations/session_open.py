"""Opening sessions — get or create the session that a client of another protocol knows by a name of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

import msgspec

from agentvm.errors import AgentVMError, InvalidInput
from agentvm.model.ids import ImageId, SessionId
from agentvm.model.session import AGENTS, EXTERNAL_MAX, IMAGE_TAGS, SOURCES, UNSTORED, Alias, Session
from agentvm.operations.operation import Context, OperationGroup
from agentvm.protocol.bounds import Bound
from agentvm.protocol.requests import Request, SubscribingReply
from agentvm.sessions.seeding import SEEDS_MAX, SeedMessage

operation = OperationGroup("sessions")

USE = "agent:use"


class SessionOpenReply(SubscribingReply):
    session: Session
    created: bool


class SessionOpen(Request[SessionOpenReply]):
    """`external` is the client's own name; two gateways may use the same. Without one, a session is created each time.

    A session that is created begins with `messages`, which are not billed.
    """

    bound = Bound(max_bytes=47 * 1024 * 1024, max_values=100_000)
    image_id: ImageId
    gateway: Annotated[str, msgspec.Meta(min_length=1, max_length=40)] = ""
    external: Annotated[str, msgspec.Meta(min_length=1, max_length=EXTERNAL_MAX)] | None = None
    title: str | None = None
    messages: Annotated[tuple[SeedMessage, ...], msgspec.Meta(max_length=SEEDS_MAX)] = ()
    archived: bool = False
    """Whether a session that is created is left out of lists."""


@operation("session.open", needs=USE, command=True, audit="session.open")
async def open_named(context: Context, request: SessionOpen) -> SessionOpenReply:
    """Get the session of an image that a client knows by a name of its own; the first time, create it.

    The name is stored in the commit that creates the session, so that of two requests at once one creates it. Fails with
    `image_not_found`.
    """
    context.target, context.is_dry_run = request.image_id, True
    if request.external is not None and request.gateway in (AGENTS, IMAGE_TAGS, SOURCES, UNSTORED):
        # These names decide which image is rebuilt when an agent has changed or is meant by a tag, and which session goes.
        raise InvalidInput(f"{request.gateway} is not the name of a gateway: it is reserved for the server")
    _, image = await context.workspace.image(request.image_id)
    context.join(image.container_id)
    alias = None if request.external is None else Alias(request.gateway, request.external)
    session, created = await context.sessions.open(
        request.image_id, alias, title=request.title, seeds=request.messages, archived=request.archived
    )
    # Only what creates something is in the audit log.
    context.target, context.is_dry_run = session.session_id, not created
    return SessionOpenReply(session=session, created=created, subscriptions=context.subscribe(session))


@asynccontextmanager
async def discarded_if_refused(context: Context, session_id: SessionId | None) -> AsyncIterator[None]:
    """Deletes a session that was created for a message, if the message is refused; None for a session of before."""
    try:
        yield
    except AgentVMError:
        if session_id is not None:
            with suppress(AgentVMError):
                await context.sessions.discard_unbegun(session_id)
        raise
