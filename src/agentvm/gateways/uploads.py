"""Uploads — files that come inside messages of other protocols, stored as attachments to which the messages refer."""

import base64
import io

from msgspec import structs

from agentvm.errors.attachment import AttachmentTooLarge
from agentvm.model.attachment import SCHEME, check_media_type, check_name
from agentvm.model.ids import ContainerId
from agentvm.model.message import FilePart, ImagePart, TextPart, UserContent, UserPart
from agentvm.operations.context import Context
from agentvm.storage.attachments import Upload


async def attach(context: Context, container_id: ContainerId, content: UserContent) -> UserContent:
    """Returns the content with references in place of base64. `AttachmentTooLarge` for a file above the limit."""
    if isinstance(content, str):
        return content
    return tuple([await _attached(context, container_id, part) for part in content])


async def _attached(context: Context, container_id: ContainerId, part: UserPart) -> UserPart:
    if isinstance(part, TextPart) or part.data.startswith((SCHEME, "https://", "http://")):
        return part
    limit = context.vm.runtime.settings_of(context.tenant_id).limits.attachment_bytes
    content = base64.b64decode(part.data)
    if len(content) > limit:
        raise AttachmentTooLarge(f"An attachment has at most {limit:,} bytes here (limits.attachmentBytes)")
    name = check_name(_name(part))
    about = Upload(media_type=check_media_type(part.media_type), name=name, uploaded_by=context.principal.user_id)
    stored, _ = await context.attachments.add(container_id, io.BytesIO(content), about)
    return structs.replace(part, data=stored.reference)


def _name(part: ImagePart | FilePart) -> str | None:
    return part.name if isinstance(part, ImagePart) else part.filename
