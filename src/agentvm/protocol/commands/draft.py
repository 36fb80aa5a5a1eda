"""Draft commands — what somebody has begun to write."""

from typing import Annotated

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, SessionId
from agentvm.model.session import Draft
from agentvm.protocol.commands.base import Command, Reply


class SessionDraftReply(Reply):
    """`draft` is what is there now; absent when there is none."""

    session_id: SessionId
    saved: bool
    draft: Draft | None = None


class SessionDraft(Command[SessionDraftReply]):
    name = "session_draft"
    reply_type = SessionDraftReply
    session_id: SessionId
    text: str
    device: str | None = None
    if_updated_at: int | None = None


class SessionDraftsReply(Reply):
    session_id: SessionId
    drafts: tuple[Draft, ...]


class SessionDrafts(Command[SessionDraftsReply]):
    name = "session_drafts"
    reply_type = SessionDraftsReply
    session_id: SessionId


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


class SessionDraftList(Command[SessionDraftListReply]):
    name = "session_draft_list"
    reply_type = SessionDraftListReply
    container_id: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
