"""A whole server on PostgreSQL: turns are kept, found and gone on with after a restart."""

from pathlib import Path

import anyio
import httpx2
import pytest
from tests.support.wire import client

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SystemSettings
from agentvm.drivers.scripted import echo
from agentvm.errors import ConfigInvalid, DataDirInUse
from agentvm.model.secret import Secret
from agentvm.storage.engines.postgres import database_locks
from agentvm.storage.engines.postgres.opening import open_store

DRIVERS = {"scripted": ScriptedDriver(echo)}


def configured(url: str, data_dir: Path) -> ServerConfig:
    return ServerConfig(system=SystemSettings(port=0, data_dir=str(data_dir), database=Secret(url), shutdown_seconds=0))


async def test_a_server_on_postgresql_goes_on_where_it_was(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_locks, "LOCK_SECONDS", 0)
    config = configured(database_url, tmp_path / "data")
    with anyio.fail_after(60):
        async with start_server(config, drivers=DRIVERS) as server, client(server.ws_url) as one:
            image = await one.image()
            await one.say(image["imageId"], "Where do herons nest?")
            other = configured(database_url, tmp_path / "other")
            with pytest.raises(DataDirInUse, match="another AgentVM"):
                await start_server(other, drivers=DRIVERS).__aenter__()
        assert not (tmp_path / "data" / "agentvm.db").exists()
        async with start_server(config, drivers=DRIVERS):
            # From now on the database belongs to the key that the first start has made.
            other = configured(database_url, tmp_path / "other")
        with pytest.raises(ConfigInvalid, match="another server key"):
            await start_server(other, drivers=DRIVERS).__aenter__()
        async with start_server(config, drivers=DRIVERS) as server, client(server.ws_url) as one:
            await one.say(image["imageId"], "And storks?")
            async with httpx2.AsyncClient(base_url=server.url) as http:
                answer = await http.get("/v1/sessions/search", params={"q": "heron nest", "container": "c1"})
            # What was asked, and the echo of it.
            assert answer.json()["total"] == 2, answer.text


async def test_a_database_belongs_to_the_server_key_of_its_first_start(database_url: str) -> None:
    async with open_store(database_url, readers=1):
        pass
    async with open_store(database_url, readers=1, key_check=b"a"):
        pass
    async with open_store(database_url, readers=1, key_check=b"a"):
        pass
    for other in (b"b", None):
        with pytest.raises(ConfigInvalid, match="another server key"):
            async with open_store(database_url, readers=1, key_check=other):
                raise AssertionError("It was opened")
