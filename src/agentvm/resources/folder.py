"""Folder — a resource as files, for people and for git: a `resource.json`, and beside it the texts that are better read alone.

    sales/
      resource.json      {"type": "prompts", "name": "sales", "version": "1.0.0", ...}
      prompt.md

Anywhere in `content`, `{"$file": "prompt.md"}` stands for the text of a file, or for its bytes where a binary part belongs.
Where both are possible the file is text if it is UTF-8, unless `"binary": true` is beside it. `{"$literal": ...}` escapes an
object of one of these forms. A prompt without `content` is its `prompt.md`. Files are in the folder or below it, and nowhere
else. A folder with a `SKILL.md` and no `resource.json` is a skill, with all of its files.
"""

import mimetypes
import os
import re
from base64 import b64decode, b64encode
from codecs import BOM_UTF8
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import inspect

from agentvm.errors import InvalidInput, shorten
from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.errors.validation import explain
from agentvm.model.base import Record, record_from
from agentvm.model.resource import CONTENT_MAX_BYTES, ResourceType, Visibility, parse_type
from agentvm.resources.archive import Bundle, read_json
from agentvm.resources.intake import attach
from agentvm.resources.kind import Binary, accept, decode
from agentvm.resources.kinds import KINDS
from agentvm.resources.registry import NewVersion, check_draft
from agentvm.resources.skill import SKILL_FILE
from agentvm.resources.skill_folder import read_skill, skill_files

MANIFEST = "resource.json"
PROMPT = "prompt.md"
FOLDERS_MAX = 1_000
FILE_NAME_MAX = 80

_FILE, _LITERAL, _BINARY = "$file", "$literal", "binary"
_ANYTHING = inspect.AnyType()
_NAMES: dict[tuple[str, str], str] = {
    ("prompts", "text"): PROMPT,
    ("agents", "systemPrompt"): "system-prompt.md",
    ("tools", "description"): "description.md",
    ("skills", "text"): SKILL_FILE,
}
_PROGRAMS = {"python": "tool.py", "command": "tool.sh"}


class FolderItem(Record, forbid_unknown_fields=True):
    """A `resource.json` with everything in it that it refers to; `content` is as it would be sent to a server."""

    type: ResourceType
    name: str
    version: str | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    visibility: Visibility | None = None
    schema: dict[str, object] | None = None
    dependencies: dict[str, str] | None = None
    content: Any = None

    def references(self) -> dict[str, str]:
        """Returns the URIs by alias: those in the content, and those that are declared."""
        kind = KINDS[self.type]
        return {**kind.references(accept(kind, self.content)), **(self.dependencies or {})}

    def digest(self) -> str:
        """Returns the digest that a server would compute. Refuses everything that a server would refuse by itself."""
        return check_draft(KINDS[self.type], record_from(NewVersion, self))


def find_folders(root: Path) -> list[Path]:
    """Every folder with a resource in it, by name. Hidden ones, and links to folders, are passed over."""
    folders = []
    for folder, below, files in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        if MANIFEST in files or SKILL_FILE in files:
            folders.append(Path(folder))
            if MANIFEST not in files:
                # Folders below that of a skill are parts of it.
                below.clear()
            if len(folders) > FOLDERS_MAX:
                raise ResourceTooLarge(f"There are more than {FOLDERS_MAX} resources in {root}; give a folder that has fewer")
    return folders


def read_folder(folder: Path) -> FolderItem:
    """Reads a resource; `InvalidInput` names the file and the fault."""
    if is_skill(folder):
        about, content = read_skill(folder, partial(_read, folder))
        return FolderItem(type="skills", name=about.name, description=about.description, content=content)
    raw = _read_manifest(folder)
    try:
        if isinstance(raw, dict) and isinstance(raw.get("type"), str):
            raw = {**raw, "type": parse_type(raw["type"])}
        item = msgspec.convert(raw, type=FolderItem)
    except msgspec.ValidationError as error:
        raise ResourceInvalid(f"{folder / MANIFEST}: {explain(error, FolderItem)}") from None
    except InvalidInput as error:
        raise ResourceInvalid(f"{folder / MANIFEST}: {error}") from None
    if item.content is None and item.type == "prompts":
        return msgspec.structs.replace(item, content={"text": _text(folder, PROMPT)})
    if item.content is None:
        raise ResourceInvalid(f"{folder / MANIFEST} has no content")
    return msgspec.structs.replace(item, content=_read_in(folder, item.content, inspect.type_info(KINDS[item.type].content)))


def is_skill(folder: Path) -> bool:
    """Whether a folder is a skill as its author wrote it."""
    return (folder / SKILL_FILE).is_file() and not (folder / MANIFEST).exists()


def write_folder(folder: Path, item: FolderItem) -> None:
    """Writes texts of more than one line, and binary parts, into files of their own. `read_folder` reads the same resource
    again."""
    files = _files_of(item)
    folder.mkdir(parents=True, exist_ok=True)
    for name, body in files.items():
        _write(folder, name, body)


def differing(folder: Path, item: FolderItem) -> list[str]:
    """Returns the files that `write_folder` would change."""
    return [name for name, body in _files_of(item).items() if _inside(folder, name).exists() and _read(folder, name) != body]


def item_of(bundle: Bundle) -> FolderItem:
    """Returns the root of an exported bundle."""
    entry = next(entry for entry in bundle.entries if entry.uri == bundle.root)
    kind = KINDS[entry.type]
    content = decode(kind, bundle.blobs[entry.content])
    named = kind.references(content)
    declared = {dependency.alias: dependency.uri for dependency in entry.dependencies if dependency.alias not in named}
    return record_from(
        FolderItem,
        entry,
        tags=entry.tags or None,
        dependencies=declared or None,
        content=msgspec.to_builtins(attach(content, bundle.blobs)),
    )


def set_version(folder: Path, version: str) -> None:
    """Writes another version into the `resource.json`, and nothing else."""
    raw = _read_manifest(folder)
    assert isinstance(raw, dict)
    _write(folder, MANIFEST, pretty({**raw, "version": version}))


def pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def _read_manifest(folder: Path) -> object:
    # Editors of some systems put a byte order mark before the text.
    return read_json(_read(folder, MANIFEST).removeprefix(BOM_UTF8), str(folder / MANIFEST))


def _read_in(folder: Path, value: Any, kind: inspect.Type) -> Any:
    """The content with its files in it."""
    if isinstance(value, list):
        return [_read_in(folder, item, _inner(kind, None)) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_LITERAL}:
        return value[_LITERAL]
    if _FILE not in value:
        return {name: _read_in(folder, item, _inner(kind, name)) for name, item in value.items()}
    name = value[_FILE]
    if not isinstance(name, str) or not value.keys() <= {_FILE, _BINARY}:
        raise ResourceInvalid(f'{folder / MANIFEST}: write {{"{_FILE}": "the name of a file"}}')
    if not _takes_binary(kind):
        return _text(folder, name)
    body = _read(folder, name)
    if _takes_text(kind) and value.get(_BINARY) is not True and (text := _as_text(body)) is not None:
        return text
    return {"data": b64encode(body).decode()}


def _files_of(item: FolderItem) -> dict[str, bytes]:
    """The files of a folder by their names. A skill that its `SKILL.md` says all about has no `resource.json`."""
    if item.type == "skills" and item.schema is None and item.dependencies is None:
        return skill_files(item.content)
    writer = _FolderWriter(item)
    content = writer.write_out(item.content, inspect.type_info(KINDS[item.type].content), ())
    raw = {**msgspec.to_builtins(item), "content": content}
    if item.type == "prompts" and content == {"text": {_FILE: PROMPT}}:
        del raw["content"]
    return {**writer.files, MANIFEST: pretty(raw)}


class _FolderWriter:
    """Finds names for the files that a content is split into."""

    def __init__(self, item: FolderItem) -> None:
        self.files: dict[str, bytes] = {}
        self._item = item
        self._taken = {MANIFEST}
        self._folders: set[str] = set()

    def write_out(self, value: Any, kind: inspect.Type, path: tuple[str | int, ...]) -> Any:
        """The content with references to files in it."""
        if isinstance(value, str):
            is_prompt = self._item.type == "prompts" and path == ("text",)
            return {_FILE: self._add(path, value.encode())} if "\n" in value or is_prompt else value
        if isinstance(value, list | tuple):
            return [self.write_out(item, _inner(kind, None), (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if _takes_binary(kind) and value.keys() <= {"data", "size"} and isinstance(value.get("data"), str):
            body = b64decode(value["data"])
            forced = _takes_text(kind) and _as_text(body) is not None
            return {_FILE: self._add(path, body), **({_BINARY: True} if forced else {})}
        if _FILE in value or _LITERAL in value:
            return {_LITERAL: value}
        return {name: self.write_out(item, _inner(kind, name), (*path, name)) for name, item in value.items()}

    def _add(self, path: tuple[str | int, ...], body: bytes) -> str:
        name = self._free(self._name(path))
        self._taken.add(name.lower())
        self._folders.update(str(parent).lower() for parent in PurePosixPath(name).parents)
        self.files[name] = body
        return name

    def _name(self, path: tuple[str | int, ...]) -> str:
        """Returns a descriptive file name for the value at this path."""
        item, content = self._item, self._item.content
        match item.type, path:
            case (kind, (str(member),)) if (kind, member) in _NAMES:
                return _NAMES[kind, member]
            case "tools", ("entry",) if content.get("runtime") in _PROGRAMS:
                return _PROGRAMS[content["runtime"]]
            case "knowledge", ("documents", int(index), "text"):
                return f"documents/{_plain(content['documents'][index]['id']).removesuffix('.md')}.md"
            case "knowledge", ("documents", int(index), "file"):
                return f"documents/{_named_part(content['documents'][index])}"
            case "sandboxes", ("files", str(name)):
                return "/".join(["files", *(_plain(part) for part in name.split("/") if part)])
            case _:
                pass
        return f"{_plain('-'.join(map(str, path)))}.txt"

    def _free(self, name: str) -> str:
        """Returns the name, or a similar one that is not used yet; some disks ignore the case of letters."""
        folder, _, leaf = name.rpartition("/")
        if any(str(parent).lower() in self._taken for parent in PurePosixPath(name).parents):
            folder = "more"
        stem, dot, ending = leaf.rpartition(".") if "." in leaf else (leaf, "", "")
        number = 1
        while True:
            free = f"{stem}{'' if number == 1 else f'-{number}'}{dot}{ending}"
            free = f"{folder}/{free}" if folder else free
            if free.lower() not in self._taken and free.lower() not in self._folders:
                return free
            number += 1 if number < 10 else len(self._taken)


def _inner(kind: inspect.Type, member: str | None) -> inspect.Type:
    """Returns the type of that field of an object, or for None of the items of an array."""
    for option in _options(kind):
        if isinstance(option, inspect.StructType) and member is not None and option.cls is not Binary:
            return next((field.type for field in option.fields if field.encode_name == member), _ANYTHING)
        if isinstance(option, inspect.DictType) and member is not None:
            return option.value_type
        if isinstance(option, inspect.VarTupleType | inspect.ListType) and member is None:
            return option.item_type
    return _ANYTHING


def _options(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        yield from _options(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for option in kind.types:
            yield from _options(option)
    else:
        yield kind


def _takes_binary(kind: inspect.Type) -> bool:
    return any(isinstance(option, inspect.StructType) and option.cls is Binary for option in _options(kind))


def _takes_text(kind: inspect.Type) -> bool:
    return any(isinstance(option, inspect.StrType | inspect.AnyType) for option in _options(kind))


def _plain(text: str) -> str:
    """A name that every disk takes."""
    return re.sub(r"[^\w.-]+", "-", text)[:FILE_NAME_MAX].strip(".-_ ") or "file"


def _named_part(document: dict[str, Any]) -> str:
    name = _plain(document["id"])
    if "." in name:
        return name
    return name + (mimetypes.guess_extension(document.get("mime") or "") or ".bin")


def _text(folder: Path, name: str) -> str:
    text = _as_text(_read(folder, name))
    if text is None:
        raise ResourceInvalid(f"{folder / name} is not text in UTF-8")
    return text


def _as_text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _read(folder: Path, name: str) -> bytes:
    path = _inside(folder, name)
    try:
        if not path.is_file():
            raise ResourceInvalid(f"There is no file {folder / name}")
        with path.open("rb") as file:
            body = file.read(2 * CONTENT_MAX_BYTES + 1)
    except OSError as error:
        raise ResourceInvalid(f"Cannot read {folder / name}: {error.strerror}") from None
    if len(body) > 2 * CONTENT_MAX_BYTES:
        raise ResourceTooLarge(f"{folder / name} is larger than a resource may be")
    return body


def _write(folder: Path, name: str, body: bytes) -> None:
    path = _inside(folder, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    except OSError as error:
        raise InvalidInput(f"Cannot write {folder / name}: {error.strerror}") from None


def _inside(folder: Path, name: str) -> Path:
    """Returns the path of a name, links resolved, if it is within the folder."""
    home = folder.resolve()
    try:
        path = (home / name).resolve()
        is_inside = path.is_relative_to(home) and path != home and ".." not in re.split(r"[/\\]", name)
    except (OSError, ValueError, RuntimeError):
        is_inside = False
    if not is_inside:
        raise ResourceInvalid(f"{shorten(name)!r} leads out of {folder}; the files of a resource are in its folder")
    return path
