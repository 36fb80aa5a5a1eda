"""Nodes of two releases on one database, as processes: the newer one adds to the schema while the older one runs turns."""

import signal
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest
from tests.cluster.test_adoption import all_ended, ask, begin, check, deltas_flow, open_nodes, rows
from tests.faults.process import open_server
from tests.provision.postgres import Postgres

from agentvm.storage.engines.postgres.migrations import load_migrations

PACE = "0.05"
NEWEST = load_migrations()[-1][0]
ADDS = f"""
-- beside: {NEWEST}
ALTER TABLE sessions ADD COLUMN mood text NOT NULL DEFAULT 'calm';
ALTER TABLE turns ADD COLUMN weather text;
ALTER TABLE journal ADD COLUMN colour bigint;
CREATE TABLE moods (mood text PRIMARY KEY);
CREATE INDEX sessions_by_mood ON sessions (mood, session_key);
"""


@pytest.fixture
def database_url(postgres: Postgres) -> str:
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE upgraded")
    return postgres.url("upgraded")


async def test_an_upgrade_loses_nothing_while_both_releases_run_and_can_be_taken_back(
    tmp_path: Path, database_url: str
) -> None:
    async with open_nodes(tmp_path, database_url, "old", pace=PACE) as (old,), AsyncExitStack() as stack:
        sent = await begin(old)
        await deltas_flow(database_url)
        program = "tests.cluster.newer_program"
        new = await stack.enter_async_context(open_server(tmp_path / "new", program, database_url, "new", PACE, ADDS))
        assert rows(database_url, "SELECT max(version) FROM agentvm_schema") == [(NEWEST + 1,)]
        # Both take messages now, also for sessions that the other one runs.
        sent += [{**await ask(server, text), "text": text} for server, text in ((old, "to the old"), (new, "to the new"))]
        assert await old.end(signal.SIGTERM) == 0
        await all_ended(database_url)
        # Back to the release before, which knows nothing of what was added.
        await old.start()
        assert await new.end(signal.SIGTERM) == 0
        sent.append({**await ask(old, "and back"), "text": "and back"})
        await all_ended(database_url)
        await check(database_url, old, sent)
