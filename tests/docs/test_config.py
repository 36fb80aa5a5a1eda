"""The tour of docs/config.md, walked as a newcomer would: its files, its shell in one shell, its server beside it."""

import os
import shlex
from pathlib import Path

import anyio
import pytest
from tests.cli.program import COMMAND, WAIT, Program, environment, running
from tests.docs.documents import Block, blocks, read

from agentvm.config.file import read_text
from agentvm.config.layers import Layer
from agentvm.config.load import check_together

pytestmark = pytest.mark.anyio

PAGE = read("docs/config.md")
PLACEHOLDER = "<the operator's key>"


def steps() -> list[Block]:
    return [block for block in blocks(PAGE, "sh") if block.mark != "server"]


def write_walk(folder: Path, key: str) -> None:
    """One script of all blocks; around each, lines that say where it began and with what it ended."""
    script = ["set -u"]
    for number, block in enumerate(steps()):
        text = block.text.replace(PLACEHOLDER, key)
        script += [f"echo '--- {number}'", f"echo '--- {number}' >&2", "set -e" if block.mark is None else "set +e", text]
        if block.mark == "fails":
            script += ['[ $? -eq 1 ] || { echo "did not fail" >&2; exit 3; }']
    (folder / "walk.sh").write_text("\n".join(script))


def write_files(folder: Path) -> None:
    """The files that the reader is told to write, and `avm`."""
    for block in blocks(PAGE, "yaml"):
        if block.mark is not None:
            (folder / block.mark.removeprefix("file ")).write_text(block.text)
    tools = folder / "bin"
    tools.mkdir()
    (tools / "avm").write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    (tools / "avm").chmod(0o755)


def parts(text: str) -> dict[int, str]:
    found = (part.partition("\n") for part in text.split("--- ")[1:])
    return {int(number): said for number, _, said in found}


async def first_key(server: Program) -> str:
    return (await server.line_with("The operator's key")).split()[-1]


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    (start,) = (block for block in blocks(PAGE, "sh") if block.mark == "server")
    arguments = shlex.split(start.text)[1:]
    env = environment(tmp_path, PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}", NO_PROXY="*")
    async with running(*arguments, "--port", "0", env=env, errors=tmp_path / "errors") as server:
        url = (await server.line_with("listening on")).split()[-1]
        write_walk(tmp_path, await first_key(server))
        with anyio.fail_after(3 * WAIT):
            done = await anyio.run_process(
                ["bash", "walk.sh"], cwd=tmp_path, env={**env, "AVM_URL": url}, check=False, stderr=-1
            )
    assert done.returncode == 0, done.stderr.decode()
    out, err = parts(done.stdout.decode()), parts(done.stderr.decode())
    for number, block in enumerate(steps()):
        if block.output is not None:
            assert (err if block.mark == "fails" else out)[number] == block.output, block.text


def test_every_file_that_is_shown_can_be_used() -> None:
    found = blocks(PAGE, "yaml")
    assert len(found) > 1
    for block in found:
        environ = {"ANTHROPIC_KEY": "k", "OPENAI_KEY": "k"}
        layer, problems = read_text(block.text.encode(), "page", environ)
        assert problems == []
        assert check_together((Layer("file", layer.given),)) == []
