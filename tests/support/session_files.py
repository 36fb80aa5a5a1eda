"""Files of a session in memory, for tests of tools."""

import hashlib
from collections.abc import Collection, Mapping

from agentvm.errors.file import FileMissing
from agentvm.errors.tool import WorkspaceFull
from agentvm.model.session_file import SessionFile, file_path, folder_path
from agentvm.tools.base import CallContext, Caller


class MemoryFiles:
    """See `agentvm.tools.base.SessionFiles`."""

    def __init__(self, files: Mapping[str, bytes] | None = None, *, max_bytes: int = 100_000_000) -> None:
        self.bodies = dict(files or {})
        self.executable: set[str] = set()
        self._max_bytes = max_bytes

    async def list(self, under: str = "") -> list[SessionFile]:
        prefix = f"{folder}/" if (folder := folder_path(under)) else ""
        return [self._file(path) for path in sorted(self.bodies) if path.startswith(prefix)]

    async def find(self, path: str) -> SessionFile | None:
        return self._file(name) if (name := file_path(path)) in self.bodies else None

    async def read(self, path: str) -> bytes:
        if (name := file_path(path)) not in self.bodies:
            raise FileMissing(path)
        return self.bodies[name]

    async def read_all(self, max_bytes: int) -> Mapping[str, bytes]:
        if sum(map(len, self.bodies.values())) > max_bytes:
            raise WorkspaceFull("too large")
        return dict(self.bodies)

    async def write(self, path: str, body: bytes, *, executable: bool = False) -> SessionFile:
        await self.write_all({path: body}, {path} if executable else ())
        return self._file(file_path(path))

    async def write_all(self, files: Mapping[str, bytes], executable: Collection[str] = ()) -> None:
        after = {**self.bodies, **{file_path(path): body for path, body in files.items()}}
        if sum(map(len, after.values())) > self._max_bytes:
            raise WorkspaceFull("The session would have too many bytes. Delete files that are not needed")
        self.bodies = after
        self.executable = (self.executable - set(files)) | set(executable)

    async def delete(self, path: str) -> bool:
        return self.bodies.pop(file_path(path), None) is not None

    def _file(self, path: str) -> SessionFile:
        body = self.bodies[path]
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        return SessionFile(path=path, digest=digest, size=len(body), executable=path in self.executable, modified_at=1)


def call_context(files: MemoryFiles | None) -> CallContext:
    return CallContext(key="turn_1/c1", caller=Caller("acme", "ann"), deadline=0, files=files)
