"""Attachment commands — what is told of uploaded files, on whichever way it is asked for. Their bytes come and go over HTTP."""

from agentvm.commands.call import Call
from agentvm.errors.attachment import AttachmentNotFound
from agentvm.model.attachment import SCHEME, Attachment, is_digest
from agentvm.protocol import commands as ask
from agentvm.protocol.records import AttachmentRecord
from agentvm.storage.sql.attachments import AttachmentStore


async def list_some(call: Call, command: ask.AttachmentList) -> ask.AttachmentListReply:
    store = call.peer.store.container(call.workspace.container_id(command.container_id)).attachments
    page = await store.list(after=command.cursor, limit=command.limit)
    return ask.AttachmentListReply(records=tuple(shown(item) for item in page.items), next_cursor=page.next)


async def get(call: Call, command: ask.AttachmentGet) -> ask.AttachmentGetReply:
    store = call.peer.store.container(call.workspace.container_id(command.container_id)).attachments
    return ask.AttachmentGetReply(record=shown(await find(store, command.attachment)))


async def find(store: AttachmentStore, named: str) -> Attachment:
    """By reference, by digest, or by the digits of the digest. Absent and other people's look the same."""
    digest = named.removeprefix(SCHEME)
    digest = digest if digest.startswith("sha256:") else f"sha256:{digest}"
    found = await store.get(digest) if is_digest(digest) else None
    if found is None:
        raise AttachmentNotFound(named)
    return found


def shown(attachment: Attachment) -> AttachmentRecord:
    return AttachmentRecord(
        attachment=attachment.reference,
        digest=attachment.digest,
        container_id=attachment.container_id,
        size=attachment.size,
        media_type=attachment.media_type,
        created_at=attachment.created_at,
        name=attachment.name,
        uploaded_by=attachment.uploaded_by,
    )
