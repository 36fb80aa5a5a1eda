"""The tour of docs/export.md, walked as a newcomer would: its file, its shell in one shell, its server beside it."""

import os
import shlex
from pathlib import Path

import anyio
import pytest
from tests.cli.program import COMMAND, WAIT, environment, running
from tests.docs.documents import Block, blocks, read

from agentvm.sessions.archive import BLOBS, IMAGES, MANIFEST, session_file
from agentvm.sessions.intake import FOREIGN

pytestmark = pytest.mark.anyio

PAGE = read("docs/export.md")
PLACEHOLDER = "<the operator's key>"


def steps() -> list[Block]:
    return [block for block in blocks(PAGE, "sh") if block.mark != "server"]


def script(key: str) -> str:
    lines = ["set -eu"]
    for number, block in enumerate(steps()):
        text = block.text.replace(PLACEHOLDER, key).strip()
        lines += [f"echo '--- {number}'"]
        lines += [text if block.mark is None else f'if {text}; then echo "did not fail"; exit 3; fi']
    return "\n".join(lines)


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "avm").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    (tools / "avm").chmod(0o755)
    (file,) = (block for block in blocks(PAGE, "json") if block.mark is not None)
    (tmp_path / str(file.mark).removeprefix("file ")).write_text(file.text, encoding="utf-8")
    env = environment(tmp_path, PATH=f"{tools}:{os.environ['PATH']}", NO_PROXY="*", PYTHONIOENCODING="utf-8")
    (start,) = (block for block in blocks(PAGE, "sh") if block.mark == "server")
    async with running(*shlex.split(start.text)[1:], "--port", "0", env=env, errors=tmp_path / "errors") as server:
        url = (await server.line_with("listening on")).split()[-1]
        key = (await server.line_with("The operator's key")).split()[-1]
        with anyio.fail_after(3 * WAIT):
            command = ["bash", "-c", script(key)]
            done = await anyio.run_process(command, cwd=tmp_path, env={**env, "AVM_URL": url}, check=False, stderr=-1)
    assert done.returncode == 0, done.stderr.decode()
    said = [part.partition("\n")[2] for part in done.stdout.decode().split("--- ")[1:]]
    for block, printed in zip(steps(), said, strict=True):
        if block.output is not None:
            assert printed.strip() == block.output.strip(), block.text
    assert "The archive is refused, and nothing was written" in done.stderr.decode()


def test_the_members_and_the_programs_are_documented() -> None:
    assert [name for name in (IMAGES, MANIFEST, session_file(1), f"{BLOBS}<hex>") if f"`{name}`" not in PAGE] == []
    assert [name for name in FOREIGN if f"| `{name}` |" not in PAGE] == []
