"""The tour of docs/backup.md, walked as a newcomer would: a server, a backup, and another server from it."""

from pathlib import Path

import pytest
from tests.docs.documents import read
from tests.docs.tour import first_key, marked, run, script, serving

from agentvm.storage.engines.sqlite.backup import MANIFEST, PARTS

PAGE = read("docs/backup.md")


async def test_the_tour_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with serving(PAGE, tmp_path) as (server, env):
        key = await first_key(server)
        said = "".join(await run(script(PAGE, key), tmp_path, env))
    assert "Warning: The backup contains the server key" in said
    assert "heron.backup is valid: agentvm.db, server.key as of" in said
    assert "in use by another AgentVM server" in said
    async with serving(PAGE, tmp_path, "restored") as (_, env):
        # The key of the first server is good here: it came along.
        out, _ = await run(marked(PAGE, "then").text, tmp_path, {**env, "AVM_KEY": key})
        assert "system:admin" in out


def test_the_parts_are_documented() -> None:
    assert [name for name in (*PARTS, MANIFEST) if f"`{name}`" not in PAGE] == []
