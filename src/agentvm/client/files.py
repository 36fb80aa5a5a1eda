"""Files — what is known of attachments, as methods over any link. Their bytes go over HTTP: `agentvm.client.attachments`."""

from agentvm.operations.attachment import AttachmentGet, AttachmentList
from agentvm.protocol.link import RuntimeLink
from agentvm.protocol.records import AttachmentRecord


class AttachmentVerbs:
    """The files of containers."""

    def __init__(self, link: RuntimeLink) -> None:
        self._link = link

    async def list(
        self, container_id: str, *, cursor: str | None = None, limit: int = 100
    ) -> tuple[tuple[AttachmentRecord, ...], str | None]:
        """The newest first, and the cursor of the next page."""
        reply = await self._link.ask(AttachmentList(container_id=container_id, cursor=cursor, limit=limit))
        return reply.records, reply.next_cursor

    async def get(self, container_id: str, attachment: str) -> AttachmentRecord:
        """`AttachmentNotFound` if the container does not have it."""
        reply = await self._link.ask(AttachmentGet(container_id=container_id, attachment=attachment))
        return reply.record
