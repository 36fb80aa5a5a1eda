"""File verbs — the files of containers and of sessions: lists, records, deletion. Their bytes go over HTTP."""

from agentvm.model.ids import SessionId
from agentvm.model.session_file import SessionFile
from agentvm.operations.attachment import AttachmentGet, AttachmentList
from agentvm.operations.file import FileDelete, FileGet, FileList
from agentvm.protocol.link import RuntimeLink
from agentvm.protocol.records import AttachmentRecord


class AttachmentVerbs:
    """The files of containers. Their bytes go over HTTP: `agentvm.client.attachments`."""

    def __init__(self, link: RuntimeLink) -> None:
        self._link = link

    async def list(
        self, container_id: str, *, cursor: str | None = None, limit: int = 100
    ) -> tuple[tuple[AttachmentRecord, ...], str | None]:
        """Lists files, newest first; returns the cursor of the next page too."""
        reply = await self._link.ask(AttachmentList(container_id=container_id, cursor=cursor, limit=limit))
        return reply.records, reply.next_cursor

    async def get(self, container_id: str, attachment: str) -> AttachmentRecord:
        """Raises `AttachmentNotFound` if the container does not have the file."""
        return (await self._link.ask(AttachmentGet(container_id=container_id, attachment=attachment))).record


class FileVerbs:
    """The files of sessions. Their bytes go over HTTP: `agentvm.client.session_files`."""

    def __init__(self, link: RuntimeLink) -> None:
        self._link = link

    async def list(
        self, session_id: str, under: str = "", *, cursor: str | None = None, limit: int = 100
    ) -> tuple[tuple[SessionFile, ...], str | None]:
        """Lists files below a folder by path; returns the cursor of the next page too."""
        reply = await self._link.ask(FileList(session_id=SessionId(session_id), under=under, cursor=cursor, limit=limit))
        return reply.files, reply.next_cursor

    async def get(self, session_id: str, path: str) -> SessionFile:
        """Raises `FileMissing` if the session does not have the file."""
        return (await self._link.ask(FileGet(session_id=SessionId(session_id), path=path))).file

    async def delete(self, session_id: str, path: str) -> None:
        await self._link.ask(FileDelete(session_id=SessionId(session_id), path=path))
