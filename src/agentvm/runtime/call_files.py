"""Call files — the files of a session as the calls of a turn see and change them.

A call stores the bytes that it writes at once, claimed for the session; which file has them is committed with its result. Until
then the calls after it see its changes through the turn. A call without a result leaves no change: its turn was stopped, the
server died, or it is made again with an answer.
"""

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager

import anyio
import msgspec

from agentvm.errors import QuotaExceeded
from agentvm.errors.file import FileMissing, FilePathInvalid
from agentvm.errors.tool import WorkspaceFull
from agentvm.model.base import record_from
from agentvm.model.ids import UserId
from agentvm.model.session_file import FileChange, SessionFile, apply_changes, file_path, folder_path, folders_of
from agentvm.runtime.ports import Ports
from agentvm.runtime.session_log import SessionLog


class TurnFiles:
    """The files of a session during one step of a turn."""

    def __init__(self, ports: Ports, log: SessionLog, user_id: UserId | None) -> None:
        self.ports = ports
        self.tenant_id = log.tenant_id
        self.user_id = user_id
        self.store = ports.store.tenant(log.tenant_id).container(log.container_id).files(log.session_id)
        self.limits = ports.settings_of(log.tenant_id).limits
        self.changes: dict[str, FileChange] = {}
        """Changes of calls that have ended, of which some may not be committed yet."""
        self._writing = anyio.Lock()

    @asynccontextmanager
    async def open(self, *, writes: bool) -> "AsyncGenerator[CallFiles]":
        """Yields the files for one call. Calls that write run one after another, in the order of their requests."""
        if not writes:
            yield CallFiles(self)
            return
        async with self._writing:
            yield CallFiles(self)


class CallFiles:
    """The files of a session for one call; see `agentvm.tools.base.SessionFiles`."""

    def __init__(self, turn: TurnFiles) -> None:
        self._turn = turn
        self._changes: dict[str, FileChange] = {}
        self.tainted = False
        """Whether the call has seen a file, or the name of one, that may be untrusted text."""
        self._start: tuple[SessionFile, ...] | None = None

    def show(self, files: tuple[SessionFile, ...]) -> None:
        """Lists these files from now on, whichever the session has: a program that is run again sees those of its first run."""
        self._start = files

    def discard(self) -> None:
        """Forgets the changes of the call, which has failed: half of them could be a loss, such as a file that was moved."""
        self._changes.clear()

    def keep(self, *, tainted: bool) -> tuple[FileChange, ...]:
        """Returns the changes of the call, which has ended with a result; the calls after it see them.

        `tainted` when the call, or the turn before it, has read untrusted text.
        """
        changes = self._changes
        if tainted:
            changes = {path: msgspec.structs.replace(change, tainted=True) for path, change in changes.items()}
        self._turn.changes.update(changes)
        return tuple(changes.values())

    async def list(self, under: str = "") -> tuple[SessionFile, ...]:
        folder = folder_path(under)
        prefix = f"{folder}/" if folder else ""
        if self._start is not None:
            return self._see(tuple(file for file in self._start if file.path.startswith(prefix)))
        return self._see(await self._list(folder, prefix))

    def _see(self, files: tuple[SessionFile, ...]) -> tuple[SessionFile, ...]:
        self.tainted = self.tainted or any(file.tainted for file in files)
        return files

    async def _list(self, folder: str = "", prefix: str = "") -> tuple[SessionFile, ...]:
        files = {file.path: file for file in await self._turn.store.list(folder)}
        apply_changes(files, (change for change in self._pending() if change.path.startswith(prefix)), self._now())
        return tuple(files[path] for path in sorted(files))

    async def find(self, path: str) -> SessionFile | None:
        name = file_path(path)
        file = await self._turn.store.get(name)
        files = {} if file is None else {name: file}
        apply_changes(files, (change for change in self._pending() if change.path == name), self._now())
        return files.get(name)

    async def read(self, path: str) -> bytes:
        file = await self.find(path)
        self._see(() if file is None else (file,))
        body = None if file is None else await self._turn.store.read_all(file.digest)
        if body is None:
            raise FileMissing(path)
        return body

    async def read_all(self, max_bytes: int) -> dict[str, bytes]:
        files = await self.list()
        if (size := sum(file.size for file in files)) > max_bytes:
            raise WorkspaceFull(
                f"The files of the session have {size:,} bytes, and the sandbox holds {max_bytes:,}. "
                "Delete files that are not needed, or give the sandbox a larger limit `fileBytes`"
            )
        bodies = await self._turn.store.read_bodies({file.digest: file.size for file in files})
        if missing := [file.path for file in files if file.digest not in bodies]:
            raise FileMissing(missing[0])
        return {file.path: bodies[file.digest] for file in files}

    async def write(self, path: str, body: bytes, *, executable: bool = False) -> SessionFile:
        name = file_path(path)
        await self.write_all({name: body}, {name} if executable else ())
        return record_from(SessionFile, self._changes[name], modified_at=self._now())

    async def write_all(self, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
        if not files:
            return
        named = {file_path(path): body for path, body in files.items()}
        flagged = {file_path(path) for path in executable}
        await self._check(named)
        try:
            await self._turn.ports.admit_bytes(self._turn.tenant_id, self._turn.user_id, sum(map(len, named.values())))
        except QuotaExceeded as error:
            raise WorkspaceFull(str(error)) from None
        digests = await self._turn.store.put_all(tuple(named.values()), self._now())
        await self._turn.store.trim(tuple(named), self._turn.limits.file_versions)
        for (path, body), digest in zip(named.items(), digests, strict=True):
            self._changes[path] = FileChange(path=path, digest=digest, size=len(body), executable=path in flagged)

    async def delete(self, path: str) -> bool:
        file = await self.find(path)
        if file is not None:
            self._changes[file.path] = FileChange(path=file.path)
        return file is not None

    async def _check(self, adding: Mapping[str, bytes]) -> None:
        """Refuses files beyond the limits of the session, and a name that is a file and a folder at once."""
        sizes = {file.path: file.size for file in await self._list()}
        folders = {folder for path in (*sizes, *adding) for folder in folders_of(path)}
        for path in folders.intersection((*sizes, *adding)):
            raise FilePathInvalid(f"{path} cannot be a file and a folder at once")
        sizes.update((path, len(body)) for path, body in adding.items())
        limits, total = self._turn.limits, sum(sizes.values())
        if len(sizes) > limits.session_files or total > limits.session_files_bytes:
            raise WorkspaceFull(
                f"The session would have {len(sizes):,} files of {total:,} bytes; it may have {limits.session_files:,} of "
                f"{limits.session_files_bytes:,}. Delete files that are not needed"
            )

    def _pending(self) -> tuple[FileChange, ...]:
        return (*self._turn.changes.values(), *self._changes.values())

    def _now(self) -> int:
        return self._turn.ports.clock()
