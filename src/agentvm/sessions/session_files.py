"""Session file library — one principal's access to the files of sessions: list, read, write, delete, archive.

A write goes through the journal like every event of a session: it is stored, then sent to subscribers.
"""

import zipfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import BinaryIO

import anyio.to_thread

from agentvm.errors.file import FileMissing, FilePathInvalid
from agentvm.errors.tool import WorkspaceFull
from agentvm.model.base import record_from
from agentvm.model.ids import SessionId
from agentvm.model.session import Session
from agentvm.model.session_file import FileChange, FileDelta, SessionFile, file_path, folder_path, folders_of
from agentvm.sessions.archive import ZipSink
from agentvm.sessions.workspace import Workspace
from agentvm.storage.sql.session_files import SessionFileStore

VERSIONS_MAX = 1_000
"""Changes of one file that are looked through."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_FILE_MODE, _EXECUTABLE_MODE = 0o100644, 0o100755


@dataclass(frozen=True, slots=True)
class SessionFileLibrary:
    """The files of the sessions in the workspace."""

    workspace: Workspace

    def writing(self, session_id: SessionId) -> AbstractAsyncContextManager[None]:
        """Held by a request while it checks a file and changes it."""
        return self.workspace.runtime.file_writes.hold((self.workspace.tenant_id, session_id))

    async def list(self, session_id: SessionId, under: str, after: str, limit: int) -> tuple[SessionFile, ...]:
        return await (await self._store(session_id))[0].list(folder_path(under), after=after, limit=limit)

    async def get(self, session_id: SessionId, path: str) -> SessionFile | None:
        return await (await self._store(session_id))[0].get(file_path(path))

    async def find(self, session_id: SessionId, path: str) -> SessionFile:
        """`FileMissing` if there is no such file."""
        file = await self.get(session_id, path)
        if file is None:
            raise FileMissing(path)
        return file

    async def versions(self, session_id: SessionId, path: str, limit: int) -> tuple[FileDelta, ...]:
        """Returns the changes of a file, also of a deleted one, the newest first."""
        return await (await self._store(session_id))[0].versions(file_path(path), limit)

    async def find_version(self, session_id: SessionId, path: str, digest: str) -> SessionFile:
        """Returns an earlier state of a file; `FileMissing` if it never had these bytes."""
        for delta in await self.versions(session_id, path, VERSIONS_MAX):
            for change in delta.changes:
                if change.digest == digest:
                    return record_from(SessionFile, change, modified_at=delta.at)
        raise FileMissing(f"{path}@{digest}")

    async def read(self, session_id: SessionId, file: SessionFile) -> AsyncIterator[bytes]:
        """Returns the bytes of a file, chunk by chunk."""
        return _chunks((await self._store(session_id))[0], file)

    async def put(self, session_id: SessionId, path: str, body: BinaryIO, *, executable: bool) -> SessionFile:
        """Writes a file within the limits of the session and the storage quota."""
        store, session = await self._store(session_id)
        name, size, now = file_path(path), body.seek(0, 2), self.workspace.clock()
        await self._check(store, name, size)
        await self.workspace.check_storage(size)
        digest, _ = await store.put(body, now)
        await store.trim((name,), self.workspace.runtime.settings_of(self.workspace.tenant_id).limits.file_versions)
        change = FileChange(path=name, digest=digest, size=size, executable=executable)
        await self._commit(session, change, now)
        return SessionFile(path=name, digest=digest, size=size, executable=executable, modified_at=now)

    async def delete(self, session_id: SessionId, path: str) -> None:
        _, session = await self._store(session_id)
        await self._commit(session, FileChange(path=path), self.workspace.clock())

    async def archive(self, session_id: SessionId) -> AsyncIterator[bytes]:
        """Returns a ZIP of all files, as it is made."""
        store, _ = await self._store(session_id)
        return _archive(store, await store.list())

    async def _check(self, store: SessionFileStore, path: str, size: int) -> None:
        limits = self.workspace.runtime.settings_of(self.workspace.tenant_id).limits
        before, usage = await store.get(path), await store.usage()
        count = usage.files + (before is None)
        total = usage.size + size - (0 if before is None else before.size)
        if count > limits.session_files or total > limits.session_files_bytes:
            raise WorkspaceFull(
                f"The session would have {count:,} files of {total:,} bytes; it may have {limits.session_files:,} of "
                f"{limits.session_files_bytes:,} (limits.sessionFiles, limits.sessionFilesBytes). Delete files first"
            )
        above = [folder for folder in folders_of(path) if await store.get(folder) is not None]
        if above or await store.list(path, limit=1):
            raise FilePathInvalid(f"{above[0] if above else path} cannot be a file and a folder at once")

    async def _commit(self, session: Session, change: FileChange, now: int) -> None:
        await self.workspace.runtime.change_files(self.workspace.tenant_id, session, FileDelta(changes=(change,), at=now))

    async def _store(self, session_id: SessionId) -> tuple[SessionFileStore, Session]:
        container, session = await self.workspace.session(session_id)
        return container.files(session_id), session


async def _chunks(store: SessionFileStore, file: SessionFile) -> AsyncIterator[bytes]:
    number = size = 0
    while chunk := await store.read(file.digest, number):
        number, size = number + 1, size + len(chunk)
        yield chunk
    if size < file.size:
        # Deleted meanwhile. The response has a length, so nobody takes it for the file.
        raise FileMissing(file.path)


async def _archive(store: SessionFileStore, files: tuple[SessionFile, ...]) -> AsyncIterator[bytes]:
    sink = ZipSink()
    with zipfile.ZipFile(sink, "w", allowZip64=False) as archive:  # type: ignore[call-overload]  # It needs no more.
        for file in files:
            entry = zipfile.ZipInfo(file.path, _EPOCH)
            entry.external_attr = (_EXECUTABLE_MODE if file.executable else _FILE_MODE) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w") as member:
                async for chunk in _chunks(store, file):
                    await anyio.to_thread.run_sync(member.write, chunk)
                    yield sink.take()
    yield sink.take()
