"""Readable files — the files of a session together with those of the agent's skills, which stand below `/skills`."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from agentvm.errors.file import FileMissing
from agentvm.model.session_file import SessionFile, folder_path
from agentvm.tools.base import SessionFiles

ROOT = "/skills"
"""The folder of skills in a sandbox."""

SkillFiles = Callable[[str | None], Awaitable[Mapping[str, bytes]]]


@dataclass(frozen=True, slots=True)
class ReadableFiles:
    """The files that tools for reading see."""

    files: SessionFiles
    skills: SkillFiles | None = None

    async def list(self, under: str = "") -> Sequence[SessionFile]:
        """Returns the files below a folder, in the order of their paths."""
        if not self._is_skill(under):
            return await self.files.list(under)
        folder, bodies = await self._skill(under)
        prefix = f"{folder}/" if folder else ""
        return [_file(path, body) for path, body in sorted(bodies.items()) if path.startswith(prefix)]

    async def find(self, path: str) -> SessionFile | None:
        if not self._is_skill(path):
            return await self.files.find(path)
        name, bodies = await self._skill(path)
        return _file(name, bodies[name]) if name in bodies else None

    async def read(self, path: str) -> bytes:
        """Returns all bytes of a file; `FileMissing` without such a file."""
        if not self._is_skill(path):
            return await self.files.read(path)
        name, bodies = await self._skill(path)
        if name not in bodies:
            raise FileMissing(path)
        return bodies[name]

    def _is_skill(self, path: str) -> bool:
        return self.skills is not None and (path == ROOT or path.startswith(f"{ROOT}/"))

    async def _skill(self, path: str) -> tuple[str, Mapping[str, bytes]]:
        """Returns the path below the folder of skills, and the files of the skill that it names, or of all skills."""
        assert self.skills is not None, "no path is one of a skill otherwise"
        name = folder_path(path.removeprefix(ROOT).lstrip("/"))
        return name, await self.skills(name.partition("/")[0] or None)


def _file(path: str, body: bytes) -> SessionFile:
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    return SessionFile(path=f"{ROOT}/{path}", digest=digest, size=len(body), modified_at=0)
