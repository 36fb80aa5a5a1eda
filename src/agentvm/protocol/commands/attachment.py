"""Attachment commands — what is known of uploaded files; their bytes go over HTTP."""

from typing import Annotated

from msgspec import Meta

from agentvm.protocol.commands.base import Command, Reply
from agentvm.protocol.records import AttachmentRecord


class AttachmentListReply(Reply):
    records: tuple[AttachmentRecord, ...] | None = None
    next_cursor: str | None = None


class AttachmentList(Command[AttachmentListReply]):
    """`cursor` is the `nextCursor` of the page before."""

    name = "attachment_list"
    reply_type = AttachmentListReply
    container_id: str
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class AttachmentGetReply(Reply):
    record: AttachmentRecord | None = None


class AttachmentGet(Command[AttachmentGetReply]):
    """`attachment` is a reference, or the digest in it."""

    name = "attachment_get"
    reply_type = AttachmentGetReply
    container_id: str
    attachment: str
