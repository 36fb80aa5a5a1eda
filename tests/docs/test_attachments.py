"""The tour of docs/attachments.md, walked as a newcomer would: its shell in one shell, its server beside it."""

import os
import shlex
from pathlib import Path

import anyio
import pytest
from tests.cli.program import COMMAND, WAIT, environment, running
from tests.docs.documents import Block, blocks, read

from agentvm.model.attachment import SCHEME
from agentvm.runtime.attached import MOST_BYTES

pytestmark = pytest.mark.anyio

PAGE = read("docs/attachments.md")
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
    assert "attachment_in_use" in done.stderr.decode()


def test_the_page_says_how_much_and_how_it_is_named() -> None:
    assert f"`{SCHEME}sha256:<hex>`" in PAGE
    assert f"at most {MOST_BYTES // 2**20} MiB" in PAGE
