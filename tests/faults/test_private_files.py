"""Backups that somebody tampered with, and who else may read a data directory (F31)."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest
from tests.cli.program import environment, run_avm
from tests.storage.engines.sqlite.backups import Files, rewritten, through_sql

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SystemSettings
from agentvm.storage.engines.sqlite.datadir import DATABASE

pytestmark = pytest.mark.usefixtures("sqlite_file")

PLANTED = """
CREATE TRIGGER planted AFTER INSERT ON api_keys BEGIN
    UPDATE api_keys SET permissions = '["system:admin"]' WHERE key_id = new.key_id;
END
"""


async def serve_once(data_dir: Path) -> None:
    """A server with something in it, in a directory that others may enter."""
    await anyio.Path(data_dir).mkdir()
    await anyio.Path(data_dir).chmod(0o755)
    config = ServerConfig(system=SystemSettings(port=0, shutdown_seconds=0, data_dir=str(data_dir), auth="on"))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        assert server.first_key is not None
        said = {"Authorization": f"Bearer {server.first_key.reveal()}"}
        async with httpx2.AsyncClient(base_url=server.url, trust_env=False, headers=said) as web:
            body = json.dumps({"slug": "acme", "name": "Acme"}).encode()
            assert (await web.post("/v1/tenants", content=body)).status_code == 201
        assert open_files(data_dir) == []


def open_files(directory: Path) -> list[str]:
    """What others may read, write or run there."""
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert len(files) >= 3
    return [path.name for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077]


def back_up(tmp_path: Path, data_dir: Path) -> Path:
    done = run_avm("backup", "--data-dir", str(data_dir), str(tmp_path / "b"), env=environment(tmp_path))
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    return tmp_path / "b"


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
async def test_f31_nobody_else_reads_what_a_server_writes_whatever_the_directory_allows(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    await serve_once(data_dir)
    assert open_files(data_dir) == []


async def test_f31_a_backup_with_a_trigger_in_it_is_not_restored_by_anybody(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    await serve_once(data_dir)
    backup = await anyio.to_thread.run_sync(back_up, tmp_path, data_dir)

    def plant(files: Files, manifest: dict[str, Any]) -> None:
        through_sql(files, tmp_path / "scratch", PLANTED)

    planted = rewritten(backup, plant, honest=True)
    for more in ((), ("--trust",)):
        done = run_avm("restore", str(planted), "--data-dir", str(tmp_path / "new"), *more, env=environment(tmp_path))
        assert done.returncode == 1
        assert "planted" in done.stderr
    assert not await anyio.Path(tmp_path / "new" / DATABASE).exists()


async def test_f31_a_backup_with_another_row_in_it_is_not_restored_where_the_server_key_is(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    await serve_once(data_dir)
    backup = await anyio.to_thread.run_sync(back_up, tmp_path, data_dir)

    def promote(files: Files, manifest: dict[str, Any]) -> None:
        through_sql(files, tmp_path / "scratch", "UPDATE tenants SET name = 'Mallory'")

    arguments = ("restore", str(rewritten(backup, promote, honest=True)), "--data-dir", str(data_dir), "--force")
    done = run_avm(*arguments, env=environment(tmp_path))
    assert (done.returncode, "--trust" in done.stderr) == (1, True)
    assert run_avm("restore", str(backup), "--data-dir", str(data_dir), "--force", env=environment(tmp_path)).returncode == 0
