"""Attachments — files to which messages refer. Their bytes go over HTTP, never through a WebSocket."""

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentvm.errors import ContainerForbidden, ContainerNotFound, InvalidInput
from agentvm.errors.attachment import AttachmentInUse, AttachmentNotFound, AttachmentTooLarge
from agentvm.model.attachment import ATTACHMENT_MAX_BYTES, Attachment, check_media_type, check_name
from agentvm.model.base import record_from
from agentvm.operations.http_caching import CREDENTIAL, IMMUTABLE, matches
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Limit
from agentvm.protocol.records import AttachmentRecord
from agentvm.protocol.requests import Reply, Request
from agentvm.storage.attachments import Upload

if TYPE_CHECKING:
    from agentvm.storage.sql.attachments import AttachmentStore

operation = OperationGroup("attachments")

READ, WRITE = "sessions:read", "agent:use"
_ALL, _ONE = "/v1/attachments", "/v1/attachments/{attachment}"
_FORM = re.compile(r"multipart/|application/x-www-form-urlencoded", re.IGNORECASE)


def _check_size(context: Context, size: int) -> None:
    limit = context.vm.runtime.settings_of(context.tenant_id).limits.attachment_bytes
    if size > limit:
        raise AttachmentTooLarge(f"An attachment has at most {limit:,} bytes here (limits.attachmentBytes)")


class AttachmentUpload(Request[AttachmentRecord]):
    """`container` is optional if you may use exactly one."""

    container_id: str | None = None
    name: str | None = None


@operation(
    "attachment.upload",
    needs=WRITE,
    http=Http(
        "POST",
        _ALL,
        query=("container_id", "name"),
        body="file",
        max_body_bytes=ATTACHMENT_MAX_BYTES,
        guard=_check_size,
        statuses=(200, 201),
    ),
    audit="attachment.upload",
    raises=(ContainerForbidden, ContainerNotFound, AttachmentTooLarge),
)
async def upload(context: Context, request: AttachmentUpload) -> HttpReply[AttachmentRecord]:
    """Upload a file that messages can refer to.

    The body is the file, and Content-Type its media type. A file that the container already has is stored once (200). A file
    that no message refers to is deleted after a day.
    """
    container_id = await context.attachments.container_id(request.container_id)
    context.target = container_id
    about = Upload(
        media_type=_media_type(context.http.content_type), name=check_name(request.name), uploaded_by=context.principal.user_id
    )
    if context.http.file is None:
        raise InvalidInput("The request has no body")
    attachment, is_new = await context.attachments.add(container_id, context.http.file, about)
    context.target = f"{container_id}/{attachment.digest}"
    return HttpReply(content=_record(attachment), status=201 if is_new else 200)


class AttachmentListReply(Reply):
    records: tuple[AttachmentRecord, ...]
    next_cursor: str | None = None


class AttachmentList(Request[AttachmentListReply]):
    """The container is optional if you may use exactly one. `cursor` is the `nextCursor` of the previous page."""

    container_id: str | None = None
    cursor: str | None = None
    limit: Limit = 100


@operation(
    "attachment.list",
    needs=READ,
    command=True,
    http=Http("GET", _ALL, id="attachments_list_all", items="records", names=(None, "AttachmentPage")),
    raises=(ContainerForbidden,),
)
async def list_of_container(context: Context, request: AttachmentList) -> AttachmentListReply:
    """List the files of a container, the newest first.

    Files are uploaded over [HTTP](attachments.md). Fails with `container_forbidden`, `invalid_input`.
    """
    store = context.attachments.store(await context.attachments.container_id(request.container_id))
    page = await store.list(after=request.cursor, limit=request.limit)
    return AttachmentListReply(records=tuple(map(_record, page.items)), next_cursor=page.next)


class AttachmentGetReply(Reply):
    record: AttachmentRecord


class AttachmentGet(Request[AttachmentGetReply]):
    """`attachment` is a reference or a digest. The container is optional if you may use exactly one."""

    attachment: str
    container_id: str | None = None


@operation("attachment.get", needs=READ, command=True)
async def get(context: Context, request: AttachmentGet) -> AttachmentGetReply:
    """Show the record of a file.

    Fails with `attachment_not_found`, also for one that only another container has, and `container_forbidden`.
    """
    container_id = await context.attachments.container_id(request.container_id)
    return AttachmentGetReply(record=_record(await context.attachments.find(container_id, request.attachment)))


class AttachmentDownload(Request[None]):
    attachment: str
    container_id: str | None = None


@operation(
    "attachment.download",
    needs=READ,
    http=Http("GET", _ONE, head=True, media_type="*/*", statuses=(200, 304)),
    discloses=True,
    raises=(ContainerForbidden, AttachmentNotFound),
)
async def download(context: Context, request: AttachmentDownload) -> HttpReply[AsyncIterator[bytes] | None]:
    """Download a file by its reference or its digest."""
    container_id = await context.attachments.container_id(request.container_id)
    attachment = await context.attachments.find(container_id, request.attachment)
    headers = {
        "ETag": f'"{attachment.digest}"',
        "Cache-Control": IMMUTABLE,
        "Vary": CREDENTIAL,
        "Content-Disposition": disposition(attachment.name),
        "X-Content-Type-Options": "nosniff",
        # Should a browser show it all the same, the page has no origin.
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    if context.http.if_none_match is not None and matches(context.http.if_none_match, attachment.digest):
        return HttpReply(content=None, status=304, headers=headers)
    # As the uploader gave it: no charset is added.
    headers |= {"Content-Length": str(attachment.size), "Content-Type": attachment.media_type}
    content = _chunks(context.attachments.store(container_id), attachment.digest)
    return HttpReply(content=content, media_type=attachment.media_type, headers=headers)


class AttachmentDelete(Request[None]):
    attachment: str
    container_id: str | None = None


@operation(
    "attachment.delete",
    needs=WRITE,
    http=Http("DELETE", _ONE),
    audit="attachment.delete",
    raises=(ContainerForbidden, AttachmentNotFound, AttachmentInUse),
)
async def delete(context: Context, request: AttachmentDelete) -> None:
    """Delete a file to which no message refers."""
    container_id = await context.attachments.container_id(request.container_id)
    attachment = await context.attachments.find(container_id, request.attachment)
    context.target = f"{container_id}/{attachment.digest}"
    await context.attachments.delete(container_id, attachment)


def _record(attachment: Attachment) -> AttachmentRecord:
    return record_from(AttachmentRecord, attachment, attachment=attachment.reference)


async def _chunks(store: "AttachmentStore", digest: str) -> AsyncIterator[bytes]:
    number = 0
    while chunk := await store.read(digest, number):
        number += 1
        yield chunk


def _media_type(content_type: str) -> str:
    if not content_type:
        raise InvalidInput("Content-Type is required: the media type of the file, such as image/png")
    if _FORM.match(content_type):
        raise InvalidInput("Send the file itself as the body, not a form, and its media type as Content-Type")
    return check_media_type(content_type)


def disposition(name: str | None) -> str:
    """Returns the header of a download: always as a file, because its content is untrusted."""
    if name is None:
        return "attachment"
    # Without path separators: a client that saves it under this name stays in its folder.
    name = re.sub(r"[/\\]", "_", name)
    plain = "".join(letter if letter.isascii() and letter not in '"%' else "_" for letter in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
