import threading
import tracemalloc

import pytest
from tests.support.session_files import MemoryFiles, call_context

from agentvm.errors import ToolFailed
from agentvm.errors.tool import WorkspaceFull
from agentvm.resources.schema import check_schema, misfits
from agentvm.runtime.policy import CallFacts, decide
from agentvm.sharing.large_work import LARGE_BYTES
from agentvm.tools.builtin import files as file_tools
from agentvm.tools.builtin.files import FILE_TOOLS, LINES_MAX, LISTED_MAX, READ_MAX_BYTES, TEXT_MAX

TOOLS = {tool.spec.name: tool for tool in FILE_TOOLS}


async def use(files: MemoryFiles | None, name: str, **given: object) -> str:
    tool = TOOLS[name]
    assert misfits("input", tool.spec.input_schema, given) == []
    result = await tool.run(given, call_context(files))
    assert result.type == "text"
    return str(result.value)


def test_each_tool_has_a_valid_schema_and_needs_nobodys_approval() -> None:
    assert set(TOOLS) == {
        "read_file", "write_file", "edit_file", "list_files", "find_files", "search_files", "read", "write", "edit",
    }  # fmt: skip
    for name, tool in TOOLS.items():
        check_schema("inputSchema", tool.spec.input_schema)
        facts = CallFacts(tool=name, runtime="builtin", effect=tool.effect, world=tool.world)
        assert decide(facts, ()).do == "allow"
        assert tool.repeat == "safe"
        assert tool.writes_files == (tool.effect == "write")


async def test_a_file_is_written_read_and_edited_byte_for_byte() -> None:
    files = MemoryFiles()
    assert "Created src/$(x).py: 12 bytes" in await use(
        files, "write_file", path="/workspace/src/$(x).py", content="a\r\n中\n\ntail"
    )
    assert files.bodies == {"src/$(x).py": "a\r\n中\n\ntail".encode()}
    assert await use(files, "read_file", path="src/$(x).py") == "a\r\n中\n\ntail"
    assert await use(files, "read", path="src/$(x).py", offset=2, limit=1, numbers=True) == (
        "     2\t中\n\n[lines 2 to 2 of 4; read on with offset=3]"
    )
    assert "1 place" in await use(files, "edit_file", path="src/$(x).py", old="中", new="b")
    assert "3 places" in await use(files, "edit", path="src/$(x).py", old_string="\n", new_string="|", replace_all=True)
    assert files.bodies["src/$(x).py"].startswith(b"a\r|b|")
    assert "Replaced" in await use(files, "write", path="src/$(x).py", content="")
    assert await use(files, "read_file", path="src/$(x).py") == "[the file is empty]"


@pytest.mark.parametrize(
    ("name", "given", "why"),
    [
        ("read_file", {"path": "none"}, "no file none"),
        ("read_file", {"path": "../etc/passwd"}, r"\.\."),
        ("read_file", {"path": "/etc/passwd"}, "outside of /workspace"),
        ("read_file", {"path": "image"}, "is not text: it has 3 bytes"),
        ("read_file", {"path": "a", "offset": 9}, "has 2 lines"),
        ("write_file", {"path": "b\n", "content": ""}, "control characters"),
        ("write_file", {"path": "b", "content": "\ud800"}, "surrogate"),
        ("edit_file", {"path": "a", "old": "nothing", "new": "x"}, "does not stand"),
        ("edit_file", {"path": "a", "old": "x", "new": "y"}, "stands 2 times"),
        ("edit_file", {"path": "a", "old": "x\nx", "new": "x\nx"}, "the same"),
        ("search_files", {"pattern": "("}, "not valid: unclosed group"),
        ("search_files", {"pattern": r"(a)\1"}, "backreferences are not supported"),
        ("search_files", {"pattern": "a{1000}{1000}{1000}"}, "size limit"),
    ],
)
async def test_what_cannot_be_done_is_told_with_its_reason(name: str, given: dict[str, object], why: str) -> None:
    files = MemoryFiles({"a": b"x\nx", "image": b"\x00\xff\x01"})
    with pytest.raises(ToolFailed, match=why):
        await TOOLS[name].run(given, call_context(files))
    assert files.bodies == {"a": b"x\nx", "image": b"\x00\xff\x01"}


async def test_a_call_without_a_session_has_no_files() -> None:
    with pytest.raises(ToolFailed, match="no session"):
        await use(None, "list_files")


async def test_a_full_session_is_an_error_with_the_remedy() -> None:
    with pytest.raises(WorkspaceFull, match="Delete files"):
        await use(MemoryFiles(max_bytes=3), "write_file", path="a", content="four")


async def test_edits_keep_a_script_executable() -> None:
    files = MemoryFiles({"run.sh": b"echo 1"})
    files.executable.add("run.sh")
    await use(files, "edit_file", path="run.sh", old="1", new="2")
    assert files.executable == {"run.sh"}


async def test_long_files_and_lines_come_in_parts() -> None:
    files = MemoryFiles({"long": b"line\n" * (LINES_MAX + 1), "wide": b"x" * (2 * TEXT_MAX) + b"\nend"})
    assert f"read on with offset={LINES_MAX + 1}]" in await use(files, "read_file", path="long")
    assert await use(files, "read_file", path="long", offset=LINES_MAX + 1) == "line\n"
    wide = await use(files, "read_file", path="wide")
    assert len(wide) < TEXT_MAX + 200
    assert "read on with offset=2]" in wide


async def test_files_are_listed_found_and_searched() -> None:
    files = MemoryFiles(
        {"a.py": b"import os\nx = 1\n", "src/b.py": b"Import re\n", "src/deep/c.txt": b"import", "bin": b"import\0"}
    )
    assert await use(files, "list_files", path="src") == "src/b.py  10 bytes\nsrc/deep/c.txt  6 bytes"
    assert await use(files, "find_files", pattern="*.py") == "a.py  16 bytes\nsrc/b.py  10 bytes"
    assert await use(files, "find_files", pattern="src/**/*.txt") == "src/deep/c.txt  6 bytes"
    assert await use(files, "find_files", pattern="src/*.txt") == "[no files]"
    assert await use(files, "search_files", pattern="^import") == "a.py:1: import os\nsrc/deep/c.txt:1: import"
    assert (
        await use(files, "search_files", pattern="^import", ignore_case=True, glob="*.py", path="src")
        == "src/b.py:1: Import re"
    )
    assert await use(files, "search_files", pattern="nothing") == "[no line matches]"
    many = MemoryFiles({f"f{number}": b"" for number in range(LISTED_MAX + 5)})
    assert "[5 more" in await use(many, "list_files")


async def test_an_edit_that_would_fill_the_memory_is_refused_before_it_is_made() -> None:
    files = MemoryFiles({"a": b"a" * 1_000_000, "large": b"a" * (READ_MAX_BYTES + 1)})
    with pytest.raises(ToolFailed, match="would have more than"):
        await use(files, "edit_file", path="a", old="a", new="b" * 1_000_000, all=True)
    for name, given in (("edit_file", {"old": "a", "new": "b", "all": True}), ("read_file", {})):
        with pytest.raises(ToolFailed, match="33,554,433 bytes, and up to 33,554,432 can be read"):
            await use(files, name, path="large", **given)


async def test_the_event_loop_goes_on_while_a_large_file_is_read_or_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, used, real = threading.get_ident(), set[int](), file_tools._check_text

    def check(path: str, body: bytes) -> str:
        used.add(threading.get_ident())
        return real(path, body)

    monkeypatch.setattr(file_tools, "_check_text", check)
    files = MemoryFiles({"a": b"a" + b" " * LARGE_BYTES})
    await use(files, "read_file", path="a")
    await use(files, "edit_file", path="a", old="a", new="b")
    assert used
    assert loop not in used


async def test_many_short_lines_take_little_memory_when_they_are_read_or_searched() -> None:
    files = MemoryFiles({"a": b"x\n" * 2_000_000})
    tracemalloc.start()
    try:
        assert (await use(files, "read_file", path="a", offset=1_999_999)) == "x\nx\n"
        assert (await use(files, "search_files", pattern="y")) == "[no line matches]"
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()
