"""The tour of docs/tenants.md, walked as a newcomer would: its shell in one shell, its server beside it."""

import os
import shlex
import sys
from pathlib import Path

import anyio
import pytest
from tests.cli.program import COMMAND, WAIT, Program, environment, running
from tests.docs.documents import Block, blocks, read

from agentvm.model.principal import MEMBER, PERMISSIONS
from agentvm.tenants.exports import ALIASES

pytestmark = pytest.mark.anyio

PAGE = read("docs/tenants.md")
PLACEHOLDER = "<the operator's key>"


async def first_key(server: Program) -> str:
    return (await server.line_with("The operator's key")).split()[-1]


def walk(folder: Path, key: str) -> str:
    """One script of all blocks; around each, lines that say where it began and with what it ended."""
    script = ["set -u"]
    for number, block in enumerate(steps()):
        text = block.text.replace(PLACEHOLDER, key)
        script += [f"echo '--- {number}'", f"echo '--- {number}' >&2", "set -e" if block.mark is None else "set +e", text]
        if block.mark == "fails":
            script += ['[ $? -eq 1 ] || { echo "did not fail" >&2; exit 3; }']
    (folder / "walk.sh").write_text("\n".join(script))
    (block,) = blocks(PAGE, "python")
    return block.text


def steps() -> list[Block]:
    return [block for block in blocks(PAGE, "sh") if block.mark != "server"]


def parts(text: str) -> dict[int, str]:
    found = (part.partition("\n") for part in text.split("--- ")[1:])
    return {int(number): said for number, _, said in found}


async def test_the_tour_works_as_it_is_written(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, command in (("avm", COMMAND), ("python", [sys.executable])):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (tools / name).chmod(0o755)
    (start,) = (block for block in blocks(PAGE, "sh") if block.mark == "server")
    arguments = shlex.split(start.text)[1:]
    env = environment(tmp_path, PATH=f"{tools}:{os.environ['PATH']}", NO_PROXY="*")
    async with running(*arguments, "--port", "0", env=env, errors=tmp_path / "errors") as server:
        url = (await server.line_with("listening on")).split()[-1]
        client = walk(tmp_path, await first_key(server)).replace("ws://localhost:8080", url.replace("http", "ws"))
        (tmp_path / "client.py").write_text(client)
        with anyio.fail_after(3 * WAIT):
            done = await anyio.run_process(
                ["bash", "walk.sh"], cwd=tmp_path, env={**env, "AVM_URL": url}, check=False, stderr=-1
            )
    assert done.returncode == 0, done.stderr.decode()
    out, err = parts(done.stdout.decode()), parts(done.stderr.decode())
    for number, block in enumerate(steps()):
        if block.output is not None:
            assert (err if block.mark == "fails" else out)[number] == block.output, block.text
    assert any("The quota tokens_per_day does not allow it" in said for said in err.values())
    assert any("Everything is explained." in said for said in out.values())


def test_the_columns_of_an_export_are_documented() -> None:
    rows = {line.split("`")[1]: line for line in PAGE.splitlines() if line.startswith("| `")}
    for plain, names in ALIASES.items():
        assert [name for name in names if f"`{name}`" not in rows[plain]] == []


def test_the_permissions_are_documented() -> None:
    section = PAGE[PAGE.index("## What a key may do") :]
    assert [name for name in MEMBER if f"`{name}`" not in section] == []
    assert [word for word in section.split("`")[1::2] if ":" in word and word not in PERMISSIONS] == []
