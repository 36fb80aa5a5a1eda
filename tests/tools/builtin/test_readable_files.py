from dataclasses import replace

import pytest
from tests.support.session_files import MemoryFiles, call_context

from agentvm.errors import ToolFailed
from agentvm.tools.builtin.files import FILE_TOOLS

TOOLS = {tool.spec.name: tool for tool in FILE_TOOLS}


async def test_files_of_skills_are_read_listed_found_and_searched_below_their_folder() -> None:
    bodies = {"pdf/SKILL.md": b"Do it.\n", "pdf/scripts/read.py": b"print(1)\n", "word/SKILL.md": b"Write it.\n"}
    asked: list[str | None] = []

    async def skill_files(name: str | None) -> dict[str, bytes]:
        asked.append(name)
        return {path: body for path, body in bodies.items() if name is None or path.startswith(f"{name}/")}

    async def using(name: str, **given: object) -> str:
        context = replace(call_context(MemoryFiles({"own.py": b"it"})), skill_files=skill_files)
        return str((await TOOLS[name].run(given, context)).value)

    assert await using("read_file", path="/skills/pdf/scripts/read.py") == "print(1)\n"
    assert (await using("list_files", path="/skills/pdf")).splitlines() == [
        "/skills/pdf/SKILL.md  7 bytes",
        "/skills/pdf/scripts/read.py  9 bytes",
    ]
    # Another skill is not read: it might be a stranger's.
    assert set(asked) == {"pdf"}
    assert "/skills/word/SKILL.md" in await using("list_files", path="/skills")
    assert await using("find_files", pattern="*.py", path="/skills") == "/skills/pdf/scripts/read.py  9 bytes"
    assert await using("find_files", pattern="/skills/pdf/**/*.py", path="/skills") == "/skills/pdf/scripts/read.py  9 bytes"
    assert await using("search_files", pattern="it", path="/skills/word") == "/skills/word/SKILL.md:1: Write it."
    assert await using("list_files") == "own.py  2 bytes"
    for path in ("/skills/pdf/none", "/skills/pdf/../word/SKILL.md", "/skills/pdf"):
        with pytest.raises(ToolFailed):
            await using("read_file", path=path)
    for name, given in (("write_file", {"content": "x"}), ("edit_file", {"old": "Do", "new": "x"})):
        with pytest.raises(ToolFailed, match="outside of /workspace"):
            await using(name, path="/skills/pdf/SKILL.md", **given)
    with pytest.raises(ToolFailed, match="outside of /workspace"):
        await TOOLS["read_file"].run({"path": "/skills/pdf/SKILL.md"}, call_context(MemoryFiles()))
