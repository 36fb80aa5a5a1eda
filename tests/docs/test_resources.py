"""The tour of docs/resources.md, walked as a newcomer would: its shell in one shell, its server beside it."""

import os
import re
import shlex
import sys
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.cli.program import COMMAND, WAIT, environment, running
from tests.docs.documents import Block, blocks, read
from tests.docs.test_blocks import fresh_runtime, run_js
from tests.docs.test_tenants import PLACEHOLDER, first_key, parts

from agentvm.model.resource import MAX_CONTENT, MAX_DEPTH, MAX_NODES, MAX_RENDERED, MAX_URI, TYPES
from agentvm.resources import registry
from agentvm.resources.archive import MAX_BUNDLE, MAX_UNPACKED
from agentvm.resources.kinds import KINDS
from agentvm.resources.shipped import load
from agentvm.server.http.resource_resolve import MAX_BATCH, MAX_BATCH_BYTES

pytestmark = pytest.mark.anyio

PAGE = read("docs/resources.md")
SERVER, SOCKET = "http://localhost:8080", "ws://localhost:8080"


def steps() -> list[Block]:
    return [block for block in blocks(PAGE, "sh") if block.mark != "server"]


def at(url: str, text: str) -> str:
    return text.replace(SERVER, url).replace(SOCKET, url.replace("http", "ws"))


def walk(folder: Path, url: str, key: str) -> None:
    """One script of all blocks, and the files that it runs; around each block, lines that say where it began."""
    script = ["set -u", "set -o pipefail"]
    for number, block in enumerate(steps()):
        mark = f"echo '--- {number}'"
        script += [mark, f"{mark} >&2", "set -e" if block.mark is None else "set +e", block.text.replace(PLACEHOLDER, key)]
        if block.mark == "fails":
            script += ['[ $? -eq 1 ] || { echo "did not fail" >&2; exit 3; }']
    (folder / "walk.sh").write_text(at(url, "\n".join(script)), encoding="utf-8")
    for block in blocks(PAGE, "python"):
        assert block.mark is not None
        (folder / block.mark).write_text(at(url, block.text), encoding="utf-8")


def program_outputs() -> dict[str, str | None]:
    return {f"python {block.mark}\n": block.output for block in blocks(PAGE, "python")}


async def test_the_tour_works_as_it_is_written(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, command in (("avm", COMMAND), ("python", [sys.executable])):
        (tools / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (tools / name).chmod(0o755)
    (start,) = (block for block in blocks(PAGE, "sh") if block.mark == "server")
    env = environment(tmp_path, PATH=f"{tools}:{os.environ['PATH']}", NO_PROXY="*", no_proxy="*")
    async with running(*shlex.split(start.text)[1:], "--port", "0", env=env, errors=tmp_path / "errors") as server:
        url = (await server.line_with("listening on")).split()[-1]
        walk(tmp_path, url, await first_key(server))
        with anyio.fail_after(4 * WAIT):
            done = await anyio.run_process(
                ["bash", "walk.sh"], cwd=tmp_path, env={**env, "AVM_URL": url}, check=False, stderr=-1
            )
    assert done.returncode == 0, done.stderr.decode()
    out, err = parts(done.stdout.decode()), parts(done.stderr.decode())
    for number, block in enumerate(steps()):
        wanted = program_outputs().get(block.text, block.output)
        if wanted is not None:
            assert (err if block.mark == "fails" else out)[number] == wanted, block.text
    assert any("(resource_in_use" in said for said in err.values())


async def test_the_agentxjs_block_works_with_a_client_of_the_same_surface(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AVM_KEY", "avm_of_the_reader")
    monkeypatch.setenv("no_proxy", "*")
    (script,) = blocks(PAGE, "js")
    async with fresh_runtime("local") as (_, url):
        said = "calculator, current_time\nYou sell tea for Acme.\n"
        assert await run_js(node, tmp_path, script.text.replace(f"{SOCKET}/ws", url)) == (0, said, "")


def row(name: str, section: str) -> str:
    text = PAGE[PAGE.index(f"\n## {section}\n") :]
    return next(line for line in text.splitlines() if line.startswith(f"| {name} |"))


@pytest.mark.parametrize("kind", TYPES)
def test_every_member_of_every_type_is_documented(kind: str) -> None:
    (content,) = (one.content for one in KINDS.values() if one.type == kind)
    told = re.findall(r"`(\w+)`(\??)", row(f"`{kind}`", "Types").split("|")[2])
    for field in msgspec.structs.fields(content):
        assert field.encode_name in dict(told), field.encode_name
        if field.required:
            assert (field.encode_name, "") in told


def test_everything_that_ships_is_documented() -> None:
    section = PAGE[PAGE.index("\n## What ships with the server\n") : PAGE.index("\n## Who may do what\n")]
    for item in load():
        assert f"`{item.name}`" in section or f"`{item.name.removesuffix('-zh')}`" in section, item.name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a URI", f"{MAX_URI} characters"),
        ("a content with its binary parts", f"{MAX_CONTENT >> 20} MiB"),
        ("what it renders to", f"{MAX_RENDERED >> 20} MiB"),
        ("versions below a root", f"{MAX_NODES}, {MAX_DEPTH} levels down"),
        ("a description", f"{registry.MAX_DESCRIPTION:,} characters"),
        ("tags", f"{registry.MAX_TAGS} of {registry.MAX_TAG} characters"),
        ("URIs in one request to resolve", f"{MAX_BATCH}, and none after {MAX_BATCH_BYTES >> 20} MiB of answers"),
    ],
)
def test_the_limits_are_the_real_ones(name: str, said: str) -> None:
    assert row(name, "Limits") == f"| {name} | {said} |"


def test_the_limits_of_archives_are_the_real_ones() -> None:
    text = " ".join(PAGE.split())
    assert f"It may have {MAX_BUNDLE >> 20} MiB, {MAX_UNPACKED >> 20} MiB unpacked, {MAX_NODES} versions" in text
