"""read_file, write_file, edit_file, list_files, find_files, search_files — the files of the session, as rows: no process runs.

The changes of a call are stored in the commit of its result, so a call that was lost is simply made again.
"""

import io
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from agentvm.drivers.base import ToolSpec
from agentvm.errors import InvalidInput, NotFound, ToolFailed
from agentvm.model.session_file import NAME_MAX_BYTES, PATH_MAX_BYTES, SessionFile
from agentvm.sharing.large_work import go_through
from agentvm.tools.base import CallContext, CallResult, CallTraits, SessionFiles, TraitsOfTool, text_result, tool_spec
from agentvm.tools.builtin.file_search import FileSearch, glob_pattern, pattern_of
from agentvm.tools.builtin.readable_files import ReadableFiles

LINES_MAX = 2_000
"""Lines of one result, unless the call asks for fewer."""
TEXT_MAX = 80_000
"""Characters of one result."""
WRITTEN_MAX = 4 * 1024 * 1024
"""Characters that one call writes."""
LISTED_MAX = 1_000
READ_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of a file that is read or edited as a text."""
SEARCHED_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of files that one call searches."""

_READ, _WRITE = (
    CallTraits.of(effect, world="closed", repeat="safe", writes_files=effect == "write") for effect in ("read", "write")
)
_PATH = {"type": "string", "minLength": 1, "maxLength": PATH_MAX_BYTES, "description": "The file, relative to /workspace"}
_FOLDER = {"type": "string", "maxLength": PATH_MAX_BYTES, "description": "A folder; all of /workspace when left out"}
_TEXT = {"type": "string", "maxLength": WRITTEN_MAX}


def _spec(name: str, description: str, required: tuple[str, ...], **properties: object) -> ToolSpec:
    return tool_spec(name, description, required, properties)


_READ_ABOUT = (
    "Reads a text file of the session. Long files come in parts: the result says where to read on. "
    "Set `numbers` to see line numbers."
)
_READ_PROPERTIES: dict[str, object] = {
    "path": _PATH,
    "offset": {"type": "integer", "minimum": 1, "description": "The line to begin with; 1 when left out"},
    "limit": {"type": "integer", "minimum": 1, "maximum": LINES_MAX, "description": "The most lines to return"},
    "numbers": {"type": "boolean", "description": "Put its number in front of each line"},
}
_WRITE_ABOUT = "Writes a text file of the session. The file is created with its folders, or replaced."
_WRITE_PROPERTIES: dict[str, object] = {"path": _PATH, "content": {**_TEXT, "description": "The whole text of the file"}}
_EDIT_ABOUT = (
    "Replaces a text in a file of the session. The old text must stand in the file exactly once, with its spaces and line "
    "breaks; to replace it everywhere set `{all}`."
)


def _edit_properties(old: str, new: str, every: str) -> dict[str, object]:
    return {
        "path": _PATH,
        old: {**_TEXT, "minLength": 1, "description": "The text to replace, exactly as it stands in the file"},
        new: {**_TEXT, "description": "The text to put in its place"},
        every: {"type": "boolean", "description": "Replace every occurrence"},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTool(TraitsOfTool):
    """A tool that reads or changes files of the session."""

    spec: ToolSpec
    traits: CallTraits
    reads: Callable[[ReadableFiles, Mapping[str, object], str], Awaitable[str]] | None = None
    writes: Callable[[SessionFiles, Mapping[str, object], str], Awaitable[str]] | None = None
    """One of the two; both take the input of the call and the tenant."""

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        if context.files is None:
            raise ToolFailed("There are no files here: the call belongs to no session")
        try:
            if self.writes is not None:
                return text_result(await self.writes(context.files, input, context.caller.tenant_id))
            assert self.reads is not None, "a tool reads or writes"
            readable = ReadableFiles(context.files, context.skill_files)
            return text_result(await self.reads(readable, input, context.caller.tenant_id))
        except (NotFound, InvalidInput) as error:
            raise ToolFailed(str(error)) from None


async def _read_file(files: ReadableFiles, input: Mapping[str, object], owner: str) -> str:
    path = str(input["path"])
    body = await _read(files, path)
    return await go_through(owner, len(body), partial(_shown, path, body, input))


async def _read(files: ReadableFiles, path: str) -> bytes:
    """Returns the bytes of a file that is not too large to be looked at as a text."""
    file = await files.find(path)
    if file is not None and file.size > READ_MAX_BYTES:
        raise ToolFailed(f"{path} has {file.size:,} bytes, and up to {READ_MAX_BYTES:,} can be read; use a program")
    return await files.read(path)


def _shown(path: str, body: bytes, input: Mapping[str, object]) -> str:
    """Returns the lines of a file that a call asks for."""
    _check_text(path, body)
    # Counted and passed over as bytes: as texts, short lines would take thirty times the memory of the file.
    count = body.count(b"\n") + (not body.endswith(b"\n") and len(body) > 0)
    first = _number(input, "offset", 1)
    if first > max(1, count):
        raise ToolFailed(f"{path} has {count} lines")
    shown: list[str] = []
    size, last = 0, first - 1
    lines = islice(io.BytesIO(body), first - 1, first - 1 + _number(input, "limit", LINES_MAX))
    for number, line in enumerate(map(bytes.decode, lines), first):
        part = f"{number:6}\t{line}" if input.get("numbers") else line
        if shown and size + len(part) > TEXT_MAX:
            break
        shown.append(part if len(part) <= TEXT_MAX else f"{part[:TEXT_MAX]}\n[the line has {len(line)} characters]\n")
        size, last = size + len(part), number
    rest = f"\n[lines {first} to {last} of {count}; read on with offset={last + 1}]" if last < count else ""
    return f"{''.join(shown)}{rest}" or "[the file is empty]"


async def _write_file(files: SessionFiles, input: Mapping[str, object], owner: str) -> str:
    path, before = str(input["path"]), await files.find(str(input["path"]))
    written = await files.write(path, _bytes(input["content"]), executable=before is not None and before.executable)
    return f"{'Created' if before is None else 'Replaced'} {written.path}: {written.size:,} bytes"


async def _edit_file(files: SessionFiles, input: Mapping[str, object], owner: str) -> str:
    path = str(input["path"])
    old, new = (
        str(input[names[0] if names[0] in input else names[1]]) for names in (("old", "old_string"), ("new", "new_string"))
    )
    every = bool(input.get("all", input.get("replace_all")))
    before = await files.find(path)
    body = await _read(ReadableFiles(files), path)
    edited, count = await go_through(owner, len(body), partial(_edited, path, body, old, new, every))
    written = await files.write(path, edited, executable=before is not None and before.executable)
    return f"Replaced {count} {'place' if count == 1 else 'places'} in {written.path}, which has {written.size:,} bytes now"


def _edited(path: str, body: bytes, old: str, new: str, every: bool) -> tuple[bytes, int]:
    """Returns the new bytes of a file, and how often the text stood in it."""
    text = _check_text(path, body)
    count = text.count(old)
    if not count:
        raise ToolFailed(f"The text does not stand in {path}; read the file, and copy the text with its spaces and line breaks")
    if count > 1 and not every:
        raise ToolFailed(
            f"The text stands {count} times in {path}; give more of the text around it, or replace every occurrence"
        )
    if old == new:
        raise ToolFailed("The old and the new text are the same")
    if len(text) + count * (len(new) - len(old)) > READ_MAX_BYTES:
        # Before it is made: a letter that stands a million times would become terabytes.
        raise ToolFailed(f"{path} would have more than {READ_MAX_BYTES:,} characters")
    return _bytes(text.replace(old, new)), count


async def _list_files(files: ReadableFiles, input: Mapping[str, object], owner: str) -> str:
    return _listed(await files.list(str(input.get("path", ""))))


async def _find_files(files: ReadableFiles, input: Mapping[str, object], owner: str) -> str:
    matches = glob_pattern(str(input["pattern"]))
    return _listed([file for file in await files.list(str(input.get("path", ""))) if matches(file.path.removeprefix("/"))])


async def _search_files(files: ReadableFiles, input: Mapping[str, object], owner: str) -> str:
    pattern = pattern_of(str(input["pattern"]), ignore_case=bool(input.get("ignore_case")))
    glob = input.get("glob")
    matches = glob_pattern(str(glob)) if glob is not None else lambda path: True
    search, left = FileSearch(pattern), SEARCHED_BYTES_MAX
    for file in await files.list(str(input.get("path", ""))):
        if not matches(file.path.removeprefix("/")):
            continue
        left -= file.size
        if left < 0 or search.is_full:
            search.cut_off = True
            break
        body = await files.read(file.path)
        await go_through(owner, len(body), partial(search.search, file.path, body))
    return search.shown()


def _listed(files: Sequence[SessionFile]) -> str:
    lines = [f"{file.path}  {file.size:,} bytes{'  executable' if file.executable else ''}" for file in files[:LISTED_MAX]]
    if len(files) > LISTED_MAX:
        lines.append(f"[{len(files) - LISTED_MAX:,} more; name a folder, or use find_files]")
    return "\n".join(lines) or "[no files]"


def _check_text(path: str, body: bytes) -> str:
    """Returns a file that is text; `ToolFailed` for another."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolFailed(f"{path} is not text: it has {len(body):,} bytes. Use a program to read it")
    return text


def _bytes(content: object) -> bytes:
    try:
        return str(content).encode()
    except UnicodeEncodeError:
        raise ToolFailed("The text has half of a surrogate pair, which is not a character") from None


def _number(input: Mapping[str, object], name: str, default: int) -> int:
    value = input.get(name, default)
    return value if isinstance(value, int) else default


FILE_TOOLS: tuple[FileTool, ...] = (
    FileTool(spec=_spec("read_file", _READ_ABOUT, ("path",), **_READ_PROPERTIES), traits=_READ, reads=_read_file),
    FileTool(
        spec=_spec("write_file", _WRITE_ABOUT, ("path", "content"), **_WRITE_PROPERTIES), traits=_WRITE, writes=_write_file
    ),
    FileTool(
        spec=_spec("edit_file", _EDIT_ABOUT.format(all="all"), ("path", "old", "new"), **_edit_properties("old", "new", "all")),
        traits=_WRITE,
        writes=_edit_file,
    ),
    FileTool(
        spec=_spec("list_files", "Lists the files of the session with their sizes.", (), path=_FOLDER),
        traits=_READ,
        reads=_list_files,
    ),
    FileTool(
        spec=_spec(
            "find_files",
            "Finds files of the session by name: `*.py` in any folder, `src/**/test_?.py` below one.",
            ("pattern",),
            pattern={"type": "string", "minLength": 1, "maxLength": NAME_MAX_BYTES},
            path=_FOLDER,
        ),
        traits=_READ,
        reads=_find_files,
    ),
    FileTool(
        spec=_spec(
            "search_files",
            "Searches text files of the session line by line with a regular expression (RE2 syntax: no look-around, no "
            "backreferences). Returns path, line number and line.",
            ("pattern",),
            pattern={"type": "string", "minLength": 1, "maxLength": 1_000},
            path=_FOLDER,
            glob={"type": "string", "maxLength": NAME_MAX_BYTES, "description": "Only files with such names: `*.py`"},
            ignore_case={"type": "boolean"},
        ),
        traits=_READ,
        reads=_search_files,
    ),
    # As AgentX 2.9 calls them.
    FileTool(spec=_spec("read", _READ_ABOUT, ("path",), **_READ_PROPERTIES), traits=_READ, reads=_read_file),
    FileTool(spec=_spec("write", _WRITE_ABOUT, ("path", "content"), **_WRITE_PROPERTIES), traits=_WRITE, writes=_write_file),
    FileTool(
        spec=_spec(
            "edit",
            _EDIT_ABOUT.format(all="replace_all"),
            ("path", "old_string", "new_string"),
            **_edit_properties("old_string", "new_string", "replace_all"),
        ),
        traits=_WRITE,
        writes=_edit_file,
    ),
)
