"""Attachments — `/v1/attachments`: files to which messages refer. Bytes go over HTTP, and never through a WebSocket.

Every read goes through a container that the asker reaches. That somebody knows a digest tells nothing about what they may see.
"""

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from agentvm.commands.attachment import find, shown
from agentvm.errors import ContainerForbidden, ContainerNotFound, InvalidInput
from agentvm.errors.attachment import AttachmentInUse, AttachmentNotFound, AttachmentTooLarge
from agentvm.model.attachment import ATTACHMENT_MAX_BYTES, Attachment, check_media_type, check_name
from agentvm.model.ids import ContainerId, check_container_id
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.protocol.records import AttachmentRecord
from agentvm.server.http.resource_views import CREDENTIAL, matches
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Page, PageGiven, Routes
from agentvm.storage.attachments import Upload
from agentvm.storage.sql.attachments import AttachmentStore
from agentvm.tenants.scoped_store import ScopedStore

routes = Routes()

READ, WRITE = ("sessions:read",), ("agent:use",)
METRIC = "storage_bytes"
_ALL, _ONE = "/v1/attachments", "/v1/attachments/{attachment:str}"
_OF_FORMS = re.compile(r"multipart/|application/x-www-form-urlencoded", re.IGNORECASE)


class UploadGiven(Given):
    """`container` may be left out by those who reach exactly one."""

    container: str | None = None
    name: str | None = None


class ListGiven(PageGiven):
    container: str | None = None


class OneGiven(Given):
    container: str | None = None


def _bound(ask: Ask[Any], size: int) -> None:
    most = ask.vm.runtime.settings_of(ask.tenant_id).limits.attachment_bytes
    if size > most:
        raise AttachmentTooLarge(f"An attachment has at most {most:,} bytes here (limits.attachmentBytes)")


@routes.add(
    "POST", _ALL, needs=WRITE, takes=Nothing, query=UploadGiven, body="file", most_body=ATTACHMENT_MAX_BYTES, bound=_bound,
    action="attachment.upload", statuses=(200, 201), raises=(ContainerForbidden, ContainerNotFound, AttachmentTooLarge),
)  # fmt: skip
async def upload(ask: Ask[Nothing]) -> Answer[AttachmentRecord]:
    """Upload a file, to be referred to by messages.

    The body is the file, and Content-Type says what it is. What is there already is answered with 200, and kept once. What no
    message refers to goes after a day.
    """
    query: UploadGiven = ask.query
    container_id = await _container(ask, query.container)
    ask.target = container_id
    about = Upload(media_type=_media_type(ask), name=check_name(query.name), uploaded_by=ask.principal.user_id)
    files = _files(ask, container_id)
    if ask.file is None:
        raise InvalidInput("There is nothing to upload")
    size, new = ask.file.seek(0, 2), False
    await ask.tenancy.quotas.check(ask.tenant_id, ask.principal.user_id, METRIC, ask.accounts.quotas.storage_bytes, size)
    try:
        added, new = await files.add(ask.file, about, ask.vm.clock())
    finally:
        if not new:
            # What is not added does not count.
            await _release(ask, size)
    ask.target = f"{container_id}/{added.digest}"
    return Answer(content=shown(added), status=201 if new else 200)


@routes.add("GET", _ALL, needs=READ, takes=ListGiven, raises=(ContainerForbidden,))
async def list_all(ask: Ask[ListGiven]) -> Page[AttachmentRecord]:
    """List the files of a container, the newest first."""
    given = ask.given
    files = _files(ask, await _container(ask, given.container))
    page = await files.list(after=given.after, limit=given.limit)
    return Page(items=[shown(item) for item in page.items], next=page.next)


@routes.add(
    "GET", _ONE, needs=READ, takes=OneGiven, head=True, media_type="*/*", statuses=(200, 304),
    raises=(ContainerForbidden, AttachmentNotFound),
)  # fmt: skip
async def download(ask: Ask[OneGiven]) -> Answer[AsyncIterator[bytes] | None]:
    """Download a file.

    It is named by its reference or its digest.
    """
    files = _files(ask, await _container(ask, ask.given.container))
    found = await find(files, ask.path["attachment"])
    headers = {
        "ETag": f'"{found.digest}"',
        # The same for ever, for who may see it.
        "Cache-Control": "private, max-age=31536000, immutable",
        "Vary": CREDENTIAL,
        "Content-Disposition": _disposition(found),
        "X-Content-Type-Options": "nosniff",
        # Should a browser show it all the same, it is a page of nobody.
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    if ask.if_none_match is not None and matches(ask.if_none_match, found.digest):
        return Answer(content=None, status=304, headers=headers)
    # As it was said when it was uploaded: no charset is added to it.
    headers |= {"Content-Length": str(found.size), "Content-Type": found.media_type}
    return Answer(content=_chunks(files, found), media_type=found.media_type, headers=headers)


@routes.add(
    "DELETE", _ONE, needs=WRITE, takes=OneGiven, action="attachment.delete",
    raises=(ContainerForbidden, AttachmentNotFound, AttachmentInUse),
)  # fmt: skip
async def delete(ask: Ask[OneGiven]) -> Answer[None]:
    """Delete a file to which no message refers."""
    container_id = await _container(ask, ask.given.container)
    files = _files(ask, container_id)
    found = await find(files, ask.path["attachment"])
    ask.target = f"{container_id}/{found.digest}"
    if not await files.delete(found.digest):
        raise AttachmentNotFound(ask.path["attachment"])
    await _release(ask, found.size)
    return NO_CONTENT


async def _chunks(files: AttachmentStore, found: Attachment) -> AsyncIterator[bytes]:
    number = 0
    while chunk := await files.read(found.digest, number):
        number += 1
        yield chunk


async def _container(ask: Ask[Any], named: str | None) -> ContainerId:
    """The one that is named, or the only one there is for the asker."""
    if named is not None:
        return check_container_id(named)
    if ask.principal.containers is not None and len(ask.principal.containers) == 1 and ask.principal.home is not None:
        return ask.principal.home
    there = await ScopedStore(ask.tenancy.store.tenant(ask.tenant_id), ask.principal).list_containers()
    if len(there) != 1:
        raise InvalidInput("Say which container it is about: `container` is needed")
    return there[0]


def _files(ask: Ask[Any], container_id: ContainerId) -> AttachmentStore:
    return ScopedStore(ask.tenancy.store.tenant(ask.tenant_id), ask.principal).container(container_id).attachments


def _media_type(ask: Ask[Any]) -> str:
    if not ask.content_type:
        raise InvalidInput("Say what the file is: Content-Type is needed, such as image/png")
    if _OF_FORMS.match(ask.content_type):
        raise InvalidInput("Send the file itself as the body, not a form, and say what it is with Content-Type")
    return check_media_type(ask.content_type)


async def _release(ask: Ask[Any], size: int) -> None:
    await ask.tenancy.quotas.count(ask.tenant_id, ask.principal.user_id, METRIC, -size)


def _disposition(found: Attachment) -> str:
    """Always as a file: whoever uploaded it decides what is in it."""
    if found.name is None:
        return "attachment"
    # No path: whoever saves it under this name saves it where they are.
    name = re.sub(r"[/\\]", "_", found.name)
    plain = "".join(letter if letter.isascii() and letter not in '"%' else "_" for letter in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
