from pathlib import Path

import anyio.to_thread
import pytest

from agentvm import ServerConfig
from agentvm.app import open_agentvm
from agentvm.cli.main import run
from agentvm.config import SessionSettings, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.storage.engines.sqlite.datadir import lock_data_dir

Said = pytest.CaptureFixture[str]


async def start(data_dir: Path, key: str = "") -> str | None:
    """The key that a start makes; the role of the given one is asked for."""
    config = ServerConfig(system=SystemSettings(data_dir=str(data_dir), auth="on"), sessions=SessionSettings(titles="off"))
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}) as vm:
        if key:
            who = await vm.authenticate(key)
            assert who is not None
            assert who.may("system:admin")
        return None if vm.first_key is None else vm.first_key.reveal()


async def make(*arguments: str) -> int:
    # It has an event loop of its own.
    return await anyio.to_thread.run_sync(run, ["key", "operator", *arguments])


async def test_an_operators_key_is_made_where_no_server_runs(tmp_path: Path, capsys: Said) -> None:
    assert await start(tmp_path) is not None
    assert await start(tmp_path) is None
    assert await make("--data-dir", str(tmp_path)) == 0
    said = capsys.readouterr()
    assert await start(tmp_path, said.out.strip()) is None


async def test_where_it_cannot_be_made_the_reason_is_said(tmp_path: Path, capsys: Said) -> None:
    assert await make("--data-dir", str(tmp_path)) == 5
    assert "No database" in capsys.readouterr().err
    await start(tmp_path)
    with lock_data_dir(tmp_path):
        assert await make("--data-dir", str(tmp_path)) != 0
    assert "avm key create" in capsys.readouterr().err
    assert await make("--data-dir", ":memory:") != 0
    assert "--memory" in capsys.readouterr().err
