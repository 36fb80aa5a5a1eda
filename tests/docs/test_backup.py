"""The tour of docs/backup.md, walked as a newcomer would: a server, a backup, and another server from it."""

import os
import shlex
import subprocess
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.cli.program import COMMAND, WAIT, environment, running
from tests.docs.documents import Block, blocks, read

from agentvm.storage.sqlite.backup import MANIFEST, PARTS

pytestmark = pytest.mark.anyio

PAGE = read("docs/backup.md")
PLACEHOLDER = "<the operator's key>"


def marked(mark: str | None) -> list[Block]:
    return [block for block in blocks(PAGE, "sh") if block.mark == mark]


def arguments(mark: str) -> list[str]:
    (block,) = marked(mark)
    return [*shlex.split(block.text)[1:], "--port", "0"]


def script(key: str) -> str:
    lines = ["set -eu"]
    for block in blocks(PAGE, "sh"):
        if block.mark is None:
            lines.append(block.text.replace(PLACEHOLDER, key))
        elif block.mark == "fails":
            lines.append(f'if {block.text.strip()}; then echo "did not fail"; exit 3; fi')
    return "\n".join(lines)


async def walk(text: str, folder: Path, env: dict[str, str]) -> str:
    def work() -> str:
        done = subprocess.run(
            ["bash", "-c", text], cwd=folder, env=env, timeout=2 * WAIT, check=False, text=True, stdout=-1, stderr=-2
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return await anyio.to_thread.run_sync(work)


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "avm").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    (tools / "avm").chmod(0o755)
    env = environment(tmp_path, PATH=f"{tools}:{os.environ['PATH']}", NO_PROXY="*")
    async with running(*arguments("server"), env=env, errors=tmp_path / "errors") as server:
        url = (await server.line_with("listening on")).split()[-1]
        key = (await server.line_with("The operator's key")).split()[-1]
        said = await walk(script(key), tmp_path, {**env, "AVM_URL": url})
    assert "Warning: The backup holds the server's key" in said
    assert "heron.backup is sound: agentvm.db, server.key as of" in said
    assert "in use by another AgentVM server" in said
    async with running(*arguments("restored"), env=env, errors=tmp_path / "errors") as server:
        url = (await server.line_with("listening on")).split()[-1]
        (then,) = marked("then")
        # The key of the first server is good here: it came along.
        assert "system:admin" in await walk(then.text, tmp_path, {**env, "AVM_URL": url, "AVM_KEY": key})


def test_the_parts_are_documented() -> None:
    assert [name for name in (*PARTS, MANIFEST) if f"`{name}`" not in PAGE] == []
