"""Call skills — the skills of an image, as the calls of its turns read them: in the versions that the image is locked to."""

from collections.abc import Mapping

from agentvm.errors import ToolFailed, shorten
from agentvm.model.ids import TenantId
from agentvm.model.image import Image
from agentvm.model.resource import NODES_MAX, SYSTEM_TENANT, some_of
from agentvm.resources.front_matter import read_front_matter
from agentvm.resources.kind import Binary, decode
from agentvm.resources.kinds import KINDS
from agentvm.resources.skill import SKILL_FILE, SkillContent, size_of
from agentvm.storage.resources import Node
from agentvm.storage.sql.store import Store
from agentvm.tools.base import SkillPart


class CallSkills:
    """Reads the skills of the image, and notes whether their text is untrusted."""

    def __init__(self, store: Store, image: Image, tenant_id: TenantId) -> None:
        rendered = image.definition.rendered
        self._store, self._tenant_id, self._lock = store, tenant_id, image.lock
        self._uris = {} if rendered is None else {str(skill["name"]): str(skill["uri"]) for skill in rendered.skills}
        self.tainted = False

    def __bool__(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._uris)

    async def load(self, name: str, path: str | None) -> SkillPart:
        """Returns a skill, or the text of one of its files; `ToolFailed` names the skills or files that exist."""
        _, content = await self._read(name)
        files = content.files or {}
        if path is None or path == SKILL_FILE:
            sizes = {name: size_of(content, name) for name in sorted(files)}
            return SkillPart(text=content.text, files=sizes, allowed_tools=read_front_matter(content.text).allowed_tools)
        file = files.get(path)
        if file is None:
            raise ToolFailed(f"{name} has no file {shorten(path)!r}; it has {some_of([SKILL_FILE, *sorted(files)], 'file')}")
        if not isinstance(file, str):
            raise ToolFailed(f"{shorten(path)!r} of {name} is not text: it has {size_of(content, path)} bytes")
        return SkillPart(text=file)

    async def files(self, name: str | None) -> Mapping[str, bytes]:
        """Returns the bytes of all files of a skill, or of all skills, by path with the name of the skill first."""
        bodies: dict[str, bytes] = {}
        for uri in self._uris if name is None else (name,):
            node, content = await self._read(uri)
            bodies[f"{uri}/{SKILL_FILE}"] = content.text.encode()
            for path, file in (content.files or {}).items():
                bodies[f"{uri}/{path}"] = file.encode() if isinstance(file, str) else await self._bytes(node, file)
        return bodies

    async def _bytes(self, node: Node, file: Binary) -> bytes:
        body = await self._store.resources(self._tenant_id).blob(node.version.version_id, file.blob or "")
        if body is None:
            raise ToolFailed(f"A file of {node.resource.name} is gone; update the image")
        return body

    async def _read(self, name: str) -> tuple[Node, SkillContent]:
        node = await self._node(name)
        content = decode(KINDS["skills"], node.content)
        assert isinstance(content, SkillContent), "the type of the resource says so"
        self.tainted = self.tainted or node.resource.tenant_id not in (self._tenant_id, SYSTEM_TENANT)
        return node, content

    async def _node(self, name: str) -> Node:
        uri = self._uris.get(name)
        if uri is None:
            raise ToolFailed(f"This agent has no skill {shorten(name)!r}; it has {some_of(list(self._uris), 'skill')}")
        version_id = next((entry.version_id for entry in self._lock if entry.uri == uri), None)
        nodes = {} if version_id is None else await self._store.resources(self._tenant_id).closure(version_id, limit=NODES_MAX)
        if version_id is None or version_id not in nodes:
            raise ToolFailed(f"{uri} is gone, or no longer shared; update the image")
        return nodes[version_id]
