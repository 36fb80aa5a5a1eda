"""The locks of a database's users; which schema nodes tell is in `test_migrations.py`."""

import anyio
import pytest

from agentvm.errors import DataDirInUse
from agentvm.storage.engines.postgres import database_locks
from agentvm.storage.engines.postgres.database import open_database
from agentvm.storage.engines.postgres.database_locks import connect_node, connect_writer


async def test_a_server_waits_a_moment_for_the_one_before_it(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_locks, "LOCK_SECONDS", 60)
    before = connect_writer(database_url)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:

            async def start() -> None:
                async with open_database(database_url, readers=1) as opened:
                    await opened.write(lambda connection: connection.fetch("SELECT 1"))

            tasks.start_soon(start)
            await anyio.wait_all_tasks_blocked()
            before.close()


def test_a_second_server_is_refused_and_so_is_a_node(database_url: str) -> None:
    with connect_writer(database_url):
        with pytest.raises(DataDirInUse, match="another AgentVM"):
            connect_writer(database_url)
        with pytest.raises(DataDirInUse, match="AVM_CLUSTER=on"):
            connect_node(database_url, 1)


def test_nodes_use_a_database_together_and_keep_a_server_out(database_url: str) -> None:
    with connect_node(database_url, 1), connect_node(database_url, 2), pytest.raises(DataDirInUse, match="another AgentVM"):
        connect_writer(database_url)
