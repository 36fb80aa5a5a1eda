"""Attachment library — one principal's uploaded files: list, store, delete.

Every read goes through a container that the principal may use: knowing a digest gives no access.
"""

from dataclasses import dataclass
from typing import BinaryIO

from agentvm.errors import InvalidInput
from agentvm.errors.attachment import AttachmentNotFound
from agentvm.model.attachment import SCHEME, Attachment, is_digest
from agentvm.model.ids import ContainerId
from agentvm.sessions.workspace import Workspace
from agentvm.storage.attachments import Upload
from agentvm.storage.sql.attachments import AttachmentStore


@dataclass(frozen=True, slots=True)
class AttachmentLibrary:
    """The files of the containers in the workspace."""

    workspace: Workspace

    async def container_id(self, name: str | None) -> ContainerId:
        """Returns the container that a request names, or the only one that the principal may use."""
        workspace, principal = self.workspace, self.workspace.principal
        if name is not None:
            return workspace.container_id(name)
        if principal.containers is not None and len(principal.containers) == 1 and principal.home is not None:
            return principal.home
        # One that only some of many may use is found after those before it.
        containers = await workspace.store.next_containers("", 2)
        if len(containers) != 1 or await workspace.store.next_containers(containers[0], 1):
            raise InvalidInput("Several containers may be meant: `container` is required")
        return containers[0]

    def store(self, container_id: ContainerId) -> AttachmentStore:
        return self.workspace.store.container(container_id).attachments

    async def find(self, container_id: ContainerId, name: str) -> Attachment:
        """Returns a file by its reference, its digest or the digits of the digest. Another container's is not found."""
        digest = name.removeprefix(SCHEME)
        digest = digest if digest.startswith("sha256:") else f"sha256:{digest}"
        attachment = await self.store(container_id).get(digest) if is_digest(digest) else None
        if attachment is None:
            raise AttachmentNotFound(name)
        return attachment

    async def add(self, container_id: ContainerId, file: BinaryIO, upload: Upload) -> tuple[Attachment, bool]:
        """Stores a file within the storage quota; returns also whether the container did not have it before."""
        size, is_new = file.seek(0, 2), False
        await self.workspace.check_storage(size)
        try:
            attachment, is_new = await self.store(container_id).add(file, upload, self.workspace.clock())
        finally:
            if not is_new:
                await self.workspace.free_storage(size)
        return attachment, is_new

    async def delete(self, container_id: ContainerId, attachment: Attachment) -> None:
        """Deletes a file. Raises `AttachmentInUse` if a message refers to it."""
        if not await self.store(container_id).delete(attachment.digest):
            raise AttachmentNotFound(attachment.reference)
        await self.workspace.free_storage(attachment.size)
