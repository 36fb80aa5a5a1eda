"""Tour — a page walked as a newcomer would: its shell in one shell, its server beside it."""

import os
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from tests.cli.program import WAIT, Program, command, environment, running
from tests.docs.documents import Block, blocks

PLACEHOLDER = "<the operator's key>"
SERVER, SOCKET = "http://localhost:8080", "ws://localhost:8080"
ASIDE = ("server", "restored", "then")
"""The marks of blocks that are not of the walk: servers, and what is done after it. Any other mark is of one that must fail."""
NONE: Mapping[str, Block] = {}


def marked(page: str, mark: str) -> Block:
    (block,) = (block for block in blocks(page, "sh") if block.mark == mark)
    return block


def steps(page: str) -> list[Block]:
    return [block for block in blocks(page, "sh") if block.mark not in ASIDE]


def script(page: str, key: str) -> str:
    """One script of all blocks; before each, a line on both outputs that says where it began."""
    lines = ["set -u", "set -o pipefail"]
    for number, block in enumerate(steps(page)):
        mark = f"echo '--- {number}'"
        lines += [mark, f"{mark} >&2", "set -e" if block.mark is None else "set +e", block.text.replace(PLACEHOLDER, key)]
        if block.mark is not None:
            # Refused, for whichever reason; not misunderstood, and no bug.
            lines += ['case $? in 1 | 4 | 5 | 6) ;; *) echo "did not fail" >&2; exit 3 ;; esac']
    return "\n".join(lines)


def at(url: str, text: str) -> str:
    """The text for a server that is elsewhere than the page says."""
    return text.replace(SERVER, url).replace(SOCKET, url.replace("http", "ws"))


@asynccontextmanager
async def serving(page: str, folder: Path, mark: str = "server") -> AsyncIterator[tuple[Program, dict[str, str]]]:
    """The server that the page starts, at a free port, and the environment of a shell that talks to it."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    for name, line in (("avm", command()), ("python", [sys.executable])):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.join(line)} "$@"\n')
        (tools / name).chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    env = environment(folder, PATH=path, NO_PROXY="*", no_proxy="*", PYTHONIOENCODING="utf-8")
    arguments = shlex.split(marked(page, mark).text)[1:]
    async with running(*arguments, "--port", "0", env=env, errors=folder / "errors") as server:
        url = (await server.line_with("listening on")).split()[-1]
        yield server, {**env, "AVM_URL": url}


async def first_key(server: Program) -> str:
    """What is no terminal is told where it is."""
    said = (await server.line_with("The operator's key")).split()[-1]
    return (await anyio.Path(said).read_text()).strip() if said.startswith("/") else said


async def run(text: str, folder: Path, env: dict[str, str]) -> tuple[str, str]:
    """What a script that must work says on stdout and on stderr."""
    with anyio.fail_after(4 * WAIT):
        done = await anyio.run_process(["bash", "-c", text], cwd=folder, env=env, check=False, stderr=-1)
    out, err = done.stdout.decode(), done.stderr.decode()
    assert done.returncode == 0, out + err
    return out, err


def parts(text: str) -> dict[int, str]:
    found = (part.partition("\n") for part in text.split("--- ")[1:])
    return {int(number): said for number, _, said in found}


async def walk(page: str, folder: Path, programs: Mapping[str, Block] = NONE, *, exactly: bool = True) -> tuple[str, str]:
    """Walks the page and compares each step with what is shown of it; returns all that was said on stdout and stderr.

    The programs are written first, under their names. If not `exactly`, space around what was said does not count.
    """
    async with serving(page, folder) as (server, env):
        for name, block in programs.items():
            (folder / name).write_text(at(env["AVM_URL"], block.text), encoding="utf-8")
        out, err = await run(at(env["AVM_URL"], script(page, await first_key(server))), folder, env)
    shown = {f"python {name}\n": block.output for name, block in programs.items()}
    for number, block in enumerate(steps(page)):
        wanted = shown.get(block.text) or block.output
        if wanted is not None:
            said = parts(out if block.mark is None else err)[number]
            if not exactly:
                said, wanted = said.strip(), wanted.strip()
            assert said == wanted, block.text
    return out, err
