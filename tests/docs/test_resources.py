"""The tour of docs/resources.md, walked as a newcomer would: its shell in one shell, its server beside it."""

import re
from pathlib import Path

import msgspec
import pytest
from tests.docs.documents import blocks, read
from tests.docs.test_blocks import fresh_runtime, run_js
from tests.docs.tour import SOCKET, walk

from agentvm.model.resource import (
    CLOSURE_MAX_BYTES,
    CONTENT_MAX_BYTES,
    DEPTH_MAX,
    NODES_MAX,
    RENDERED_MAX_BYTES,
    TYPES,
    URI_MAX,
)
from agentvm.operations.resource_resolve import BATCH_MAX, BATCH_MAX_BYTES
from agentvm.resources import kind
from agentvm.resources.archive import BUNDLE_MAX_BYTES, UNPACKED_MAX_BYTES
from agentvm.resources.kinds import KINDS
from agentvm.resources.shipped import load

PAGE = read("docs/resources.md")


async def test_the_tour_works_as_it_is_written(tmp_path: Path) -> None:
    programs = blocks(PAGE, "python")
    assert all(block.mark for block in programs)
    _, err = await walk(PAGE, tmp_path, {str(block.mark): block for block in programs})
    assert "(resource_in_use" in err


async def test_the_agentxjs_block_works_with_a_client_of_the_same_surface(
    node: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AVM_KEY", "avm_of_the_reader")
    monkeypatch.setenv("no_proxy", "*")
    (script,) = blocks(PAGE, "js")
    async with fresh_runtime("local") as (_, url):
        tools = sorted(item.name for item in load() if item.type == "tools")
        said = f"{', '.join(tools)}\nYou sell tea for Acme.\n"
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
    section = PAGE[PAGE.index("\n## What ships with the server\n") : PAGE.index("\n## Permissions\n")]
    for item in load():
        assert f"`{item.name}`" in section or f"`{item.name.removesuffix('-zh')}`" in section, item.name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a URI", f"{URI_MAX} characters"),
        ("a content with its binary parts", f"{CONTENT_MAX_BYTES >> 20} MiB"),
        ("a rendered text", f"{RENDERED_MAX_BYTES >> 20} MiB"),
        ("versions below a root", f"{NODES_MAX}, {DEPTH_MAX} levels down"),
        ("the contents of a root and all its dependencies", f"{CLOSURE_MAX_BYTES >> 20} MiB"),
        ("a description", f"{kind.DESCRIPTION_MAX:,} characters"),
        ("tags", f"{kind.TAGS_MAX} of {kind.TAG_MAX} characters"),
        ("URIs in one resolve request", f"{BATCH_MAX}, and {BATCH_MAX_BYTES >> 20} MiB of results"),
    ],
)
def test_the_limits_are_the_real_ones(name: str, said: str) -> None:
    assert row(name, "Limits") == f"| {name} | {said} |"


def test_the_limits_of_archives_are_the_real_ones() -> None:
    text = " ".join(PAGE.split())
    assert f"Limits: {BUNDLE_MAX_BYTES >> 20} MiB, {UNPACKED_MAX_BYTES >> 20} MiB unpacked, {NODES_MAX} versions" in text
