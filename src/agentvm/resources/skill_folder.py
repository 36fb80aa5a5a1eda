"""Skill folder — a skill as its files: a folder with a `SKILL.md` and without a `resource.json`."""

import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.model.resource import CONTENT_MAX_BYTES
from agentvm.resources.front_matter import FrontMatter, read_front_matter
from agentvm.resources.skill import FILES_MAX, SKILL_FILE, is_hidden

TEXT_MAX_BYTES = 1024 * 1024
"""A longer file is kept as bytes."""


def read_skill(folder: Path, read: Callable[[str], bytes]) -> tuple[FrontMatter, dict[str, Any]]:
    """Returns the front matter and the content. `read` returns the bytes of a file, and refuses one outside the folder."""
    text = _as_text(read(SKILL_FILE))
    if text is None:
        raise ResourceInvalid(f"{folder / SKILL_FILE} is not text in UTF-8")
    try:
        about = read_front_matter(text)
    except ResourceInvalid as error:
        raise ResourceInvalid(f"{folder}: {error}") from None
    if (named := folder.resolve().name) != about.name:
        raise ResourceInvalid(f"{folder}: the folder of the skill {about.name!r} must have its name, not {named!r}")
    files: dict[str, Any] = {}
    size = len(text)
    for path in _paths(folder):
        body = read(path)
        size += len(body)
        if size > CONTENT_MAX_BYTES:
            raise ResourceTooLarge(f"{folder} has more than {CONTENT_MAX_BYTES} bytes, the maximum of a skill")
        as_text = _as_text(body) if len(body) <= TEXT_MAX_BYTES else None
        files[path] = {"data": b64encode(body).decode()} if as_text is None else as_text
    return about, {"text": text, **({"files": files} if files else {})}


def skill_files(content: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns the files of a skill by their names: the inverse of `read_skill`."""
    files = {SKILL_FILE: content["text"].encode()}
    for path, file in (content.get("files") or {}).items():
        files[path] = file.encode() if isinstance(file, str) else b64decode(file["data"])
    return files


def _paths(folder: Path) -> list[str]:
    """The paths of the files beside the `SKILL.md`, in order. Hidden ones are passed over."""
    paths: list[str] = []
    for place, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not is_hidden(name))
        if linked := next((name for name in below if (Path(place) / name).is_symlink()), None):
            raise ResourceInvalid(f"{Path(place) / linked} is a link to a folder; a skill has its files in its own folder")
        inside = Path(place).relative_to(folder)
        paths += [(inside / name).as_posix() for name in names if not is_hidden(name)]
        if len(paths) > FILES_MAX + 1:
            raise ResourceTooLarge(f"There are more than {FILES_MAX} files in {folder}, too many for a skill")
    return sorted(path for path in paths if path != SKILL_FILE)


def _as_text(body: bytes) -> str | None:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
