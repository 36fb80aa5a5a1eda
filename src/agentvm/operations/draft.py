"""Drafts — text that a user has begun to write and not sent, per session and device.

None of it is audited: the log would hold an entry for every pause in typing.
"""

from typing import Annotated

import msgspec

from agentvm.errors import ContainerForbidden, PreconditionFailed, SessionNotFound
from agentvm.model.base import Record, record_from
from agentvm.model.ids import ContainerId, ImageId, SessionId
from agentvm.model.session import Draft
from agentvm.operations.numbers import Amount
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Reply, Request

operation = OperationGroup("drafts")

USE = "agent:use"
_OF_SESSION = "/v1/sessions/{session_id}"
PREVIEW_MAX = 140
"""Characters of a draft that a list shows."""


class SessionDraftReply(Reply):
    """`draft` is the present one; absent when there is none."""

    session_id: SessionId
    saved: bool
    draft: Draft | None = None


class SessionDraft(Request[SessionDraftReply]):
    """An empty `text` removes the draft. `ifUpdatedAt` is that of the draft that was seen; 0 if there was none."""

    session_id: SessionId
    text: str
    device: str | None = None
    if_updated_at: Amount | None = None


@operation("session.draft", needs=USE, command=True)
async def save(context: Context, request: SessionDraft) -> SessionDraftReply:
    """Save a draft; with `ifUpdatedAt` only if it has not changed since."""
    outcome = await context.drafts.save(
        request.session_id, request.text, device=request.device, if_updated_at=request.if_updated_at
    )
    return SessionDraftReply(session_id=request.session_id, saved=outcome.saved, draft=outcome.draft)


class DraftView(Record):
    """The present draft; absent when it was removed."""

    draft: Draft | None = None


class DraftPut(Request[DraftView]):
    """An empty `text` removes the draft. `ifUpdatedAt` is that of the draft that was seen; 0 if there was none."""

    session_id: SessionId
    text: str
    device: str | None = None
    if_updated_at: Amount | None = None


@operation(
    "draft.put",
    needs=USE,
    across=False,
    http=Http("PUT", f"{_OF_SESSION}/draft", id="drafts_save", names=("DraftRequest", None)),
    raises=(SessionNotFound, PreconditionFailed),
)
async def put(context: Context, request: DraftPut) -> DraftView:
    """Save a draft of a message in a session."""
    outcome = await context.drafts.save(
        request.session_id, request.text, device=request.device, if_updated_at=request.if_updated_at
    )
    if not outcome.saved:
        raise PreconditionFailed(
            "The draft was changed in the meantime; read it and try again",
            details={"draft": msgspec.to_builtins(outcome.draft)},
        )
    return DraftView(draft=outcome.draft)


class DraftDelete(Request[None]):
    session_id: SessionId
    device: str | None = None


@operation(
    "draft.delete",
    needs=USE,
    across=False,
    http=Http("DELETE", f"{_OF_SESSION}/draft", id="drafts_remove"),
    raises=(SessionNotFound,),
)
async def delete(context: Context, request: DraftDelete) -> None:
    """Delete a draft."""
    await context.drafts.save(request.session_id, "", device=request.device)


class SessionDraftsReply(Reply):
    session_id: SessionId
    drafts: tuple[Draft, ...]


class SessionDrafts(Request[SessionDraftsReply]):
    session_id: SessionId


@operation(
    "session.drafts",
    needs=USE,
    across=False,
    command=True,
    http=Http("GET", f"{_OF_SESSION}/drafts", id="drafts_of_session", items="drafts", names=(None, "DraftPage")),
    raises=(SessionNotFound,),
)
async def of_session(context: Context, request: SessionDrafts) -> SessionDraftsReply:
    """List your own drafts in a session, of all your devices."""
    return SessionDraftsReply(session_id=request.session_id, drafts=await context.drafts.list_session(request.session_id))


class DraftListed(Record):
    """A draft in a list: `preview` is its beginning."""

    session_id: SessionId
    container_id: ContainerId
    image_id: ImageId
    preview: str
    updated_at: int
    device: str | None = None


class SessionDraftListReply(Reply):
    drafts: tuple[DraftListed, ...]


class SessionDraftList(Request[SessionDraftListReply]):
    container_id: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


@operation(
    "session.draft_list",
    needs=USE,
    across=False,
    command=True,
    http=Http("GET", "/v1/drafts", id="drafts_of_all", items="drafts", names=(None, "DraftListedPage")),
    raises=(ContainerForbidden,),
)
async def of_all(context: Context, request: SessionDraftList) -> SessionDraftListReply:
    """List your own drafts of all sessions, each with its beginning."""
    drafts = await context.drafts.list_all(request.container_id, request.limit)
    return SessionDraftListReply(drafts=tuple(map(_listed, drafts)))


def _listed(draft: Draft) -> DraftListed:
    return record_from(DraftListed, draft, preview=" ".join(draft.text[: 4 * PREVIEW_MAX].split())[:PREVIEW_MAX])
