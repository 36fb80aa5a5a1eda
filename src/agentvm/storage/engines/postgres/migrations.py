"""Migrations — brings a PostgreSQL database to the schema this AgentVM knows.

The files `schema/NNNN_<subject>.sql` have the numbers of SQLite's, in the same order; the first creates the schema of its
number, and each of the others the next. The table `agentvm_schema` counts those that were applied. `agentvm_server_key` knows
the server key that the database belongs to, and `agentvm_commits` the mark of each writer's last commit (see `database.py`).
Each migration runs in one transaction together with its count, and nodes that start together wait for each other.

Nodes of two releases run beside each other while the newer one has only migrations that add. Such a file says so in a line `--
beside: 61`: the oldest schema whose nodes continue with the new one. Any other migration is refused while nodes without it are
running. A node announces the schema it supports by a lock of its connections, so that there is no gap; a node that was
disconnected while the schema changed is refused when it reconnects.
"""

import re
import time
from functools import cache
from importlib import resources

from psycopg import errors

from agentvm.errors import DataDirInUse, MigrationUnknown
from agentvm.storage.engines.postgres.connection import Raw
from agentvm.storage.engines.postgres.database_locks import OUTDATED_NODES

Migrations = tuple[tuple[int, str], ...]
"""The number and the SQL of every migration, in order."""

_LOCK = "SELECT pg_advisory_xact_lock(7161736577)"
_TABLE = "CREATE TABLE IF NOT EXISTS agentvm_schema (version bigint NOT NULL)"
_OLDEST_COLUMN = "ALTER TABLE agentvm_schema ADD COLUMN IF NOT EXISTS oldest bigint"
_KEY_TABLE = "CREATE TABLE IF NOT EXISTS agentvm_server_key (check_value bytea NOT NULL)"
_MARK_TABLE = "CREATE TABLE IF NOT EXISTS agentvm_commits (writer bigint PRIMARY KEY, mark bigint NOT NULL)"
_VERSION = "SELECT coalesce(max(version), 0), coalesce(max(coalesce(oldest, version)), 0) FROM agentvm_schema"
_SET_VERSION = "INSERT INTO agentvm_schema (version, oldest) VALUES ($1, $2)"
TABLE_LOCK_MS = 1000
"""A table is waited for no longer at a time: requests of other nodes wait behind."""
RETRY_INTERVAL_SECONDS = 0.5
TRIES_MAX = 60
_BESIDE = re.compile(r"^-- beside: (\d+)$", re.MULTILINE)

_NODES_UP = "SELECT coalesce(string_agg(name || ' ' || version, ', ' ORDER BY node_id), '') FROM nodes WHERE state = 'up'"


@cache
def load_migrations() -> Migrations:
    folder = resources.files("agentvm.storage.engines.postgres") / "schema"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(enumerate((file.read_text("utf-8") for file in files), start=int(files[0].name.partition("_")[0])))


def oldest_compatible(number: int, script: str) -> int:
    """The oldest schema whose nodes continue after this migration: without such a line, its own."""
    line = _BESIDE.search(script)
    return number if line is None else int(line[1])


def require_known(raw: Raw, newest: int) -> None:
    """`MigrationUnknown` if a newer release has changed the schema so that this one cannot continue with it."""
    version, oldest = raw.execute(_VERSION).fetchall()[0]
    if version > newest and oldest > newest:
        raise MigrationUnknown(
            f"The database has schema version {version}, but this AgentVM knows only versions up to {newest}. "
            "Start the newer AgentVM that wrote it, or restore a backup from before the upgrade."
        )


def migrate(raw: Raw, migrations: Migrations) -> None:
    """Applies missing migrations. `DataDirInUse` while nodes of an earlier release are up that cannot continue with one of
    them.

    A database from a newer AgentVM is left untouched: `MigrationUnknown`, unless its migrations only add.
    """
    newest = migrations[-1][0]
    with raw.transaction():
        raw.execute(_LOCK)
        for statement in (_TABLE, _OLDEST_COLUMN, _KEY_TABLE, _MARK_TABLE):
            raw.execute(statement)
    for number, script in migrations:
        tries = 0
        while True:
            try:
                _apply(raw, number, script, newest)
                break
            except errors.LockNotAvailable:
                tries += 1
                if tries == TRIES_MAX:
                    raise
                time.sleep(RETRY_INTERVAL_SECONDS)


def _apply(raw: Raw, number: int, script: str, newest: int) -> None:
    with raw.transaction():
        raw.execute(_LOCK)
        require_known(raw, newest)
        version: int = raw.execute(_VERSION).fetchall()[0][0]
        if version < number:
            oldest = oldest_compatible(number, script)
            _require_no_older_node(raw, oldest)
            raw.execute(f"SET LOCAL lock_timeout = {TABLE_LOCK_MS}")
            raw.execute(script)
            raw.execute(_SET_VERSION, (number, oldest))


def _require_no_older_node(raw: Raw, oldest: int) -> None:
    if raw.execute(OUTDATED_NODES, (oldest,)).fetchall():
        nodes = raw.execute(_NODES_UP).fetchall()[0][0]
        raise DataDirInUse(
            f"Nodes of an earlier release are up ({nodes}) that cannot continue with the database as this release changes it. "
            "Stop them first (avm cluster drain), then start this one; nothing was changed"
        )
