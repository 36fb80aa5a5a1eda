"""Skills — instructions for a task, which an agent reads when it needs them: a `SKILL.md`, and files beside it."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.model.resource import ResourceType
from agentvm.resources.front_matter import read_front_matter
from agentvm.resources.kind import Binary, Content, ContentType, RenderContext, check_rendered
from agentvm.resources.sandbox import FileText, check_paths

SKILL_FILE = "SKILL.md"
SKILL_TEXT_MAX = 256 * 1024
"""Characters of a `SKILL.md`."""
FILES_MAX = 200
"""Files beside the `SKILL.md`."""
PATH_MAX = 200
SEARCH_TEXT_MAX = 100_000
RESERVED = ("skill.md", "resource.json")
"""Names in the folder of a skill that its files cannot have, in lower case."""


class SkillContent(Content):
    """`text` is the whole `SKILL.md`, front matter and all; `files` are those beside it, by their paths."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=SKILL_TEXT_MAX)]
    files: dict[str, FileText | Binary] | None = None


class Skills:
    """A fragment is a file."""

    type: ResourceType = "skills"
    content: ContentType = SkillContent

    def check(self, content: SkillContent) -> None:
        read_front_matter(content.text)
        paths = list(content.files or {})
        if len(paths) > FILES_MAX:
            raise ResourceInvalid(f"files has {len(paths)} files, and may have {FILES_MAX}")
        check_paths(paths)
        seen: dict[str, str] = {}
        for path in paths:
            if len(path) > PATH_MAX or path != path.strip() or any(is_hidden(part) for part in path.split("/")):
                raise ResourceInvalid(
                    f"files: {shorten(path)!r} is not the path of a file of a skill: at most {PATH_MAX} characters, no part "
                    "that begins with a dot, no __pycache__"
                )
            if path.lower() in RESERVED:
                raise ResourceInvalid(f"files: {shorten(path)!r} has another meaning in the folder of a skill; rename it")
            # Some disks ignore the case of letters.
            if (other := seen.setdefault(path.lower(), path)) != path:
                raise ResourceInvalid(f"files: {shorten(path)!r} and {shorten(other)!r} differ only in the case of letters")

    def references(self, content: SkillContent) -> Mapping[str, str]:
        return {}

    def text(self, content: SkillContent) -> str:
        return content.text[:SEARCH_TEXT_MAX]

    def render(self, context: RenderContext) -> object:
        """The front matter and the list of files; for a fragment the text of that file."""
        content: SkillContent = context.content
        if context.fragment is not None:
            return _file(context, content, context.fragment)
        spec: dict[str, Any] = msgspec.to_builtins(read_front_matter(content.text))
        spec["files"] = [{"path": path, "size": size_of(content, path)} for path in sorted(content.files or {})]
        check_rendered(context.uri, len(msgspec.json.encode(spec)))
        return spec


def is_hidden(name: str) -> bool:
    """Whether a file or folder is no part of a skill, such as `.git`."""
    return name.startswith(".") or name == "__pycache__"


def check_named(name: str, content: SkillContent) -> None:
    """Refuses a skill whose `SKILL.md` has another name than its resource."""
    if (own := read_front_matter(content.text).name) != name:
        raise ResourceInvalid(f"SKILL.md is of the skill {own!r}, but the resource is named {shorten(name)!r}: use one name")


def description_of(description: str | None, content: Content) -> str | None:
    """Returns the description of a resource: a skill without another one has that of its `SKILL.md`."""
    if description is None and isinstance(content, SkillContent):
        return read_front_matter(content.text).description
    return description


def size_of(content: SkillContent, path: str) -> int:
    """Returns the bytes of a file."""
    file = (content.files or {})[path]
    if isinstance(file, str):
        return len(file.encode())
    return len(file.data) if file.data is not None else file.size or 0


def _file(context: RenderContext, content: SkillContent, path: str) -> str:
    file = content.text if path == SKILL_FILE else (content.files or {}).get(path)
    if file is None:
        raise context.missing_fragment("file", [SKILL_FILE, *sorted(content.files or {})])
    if not isinstance(file, str):
        raise ResourceInvalid(f"{context.uri}#{shorten(path)} is not text; only its bytes can be read")
    return file
