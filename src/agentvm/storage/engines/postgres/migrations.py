"""Migrations — brings a PostgreSQL database to the schema this AgentVM knows.

The files `schema/NNNN_<what>.sql` have the numbers of SQLite's, in the same order; the first creates the schema of its number,
and each of the others the next. The table `agentvm_schema` counts those that were applied. `agentvm_server_key` knows the
server key that the database belongs to, and `agentvm_commits` the mark of each writer's last commit (see `database.py`). Each
migration runs in one transaction together with its count, and nodes that start together wait for each other.
"""

from functools import cache
from importlib import resources

from agentvm.errors import MigrationUnknown
from agentvm.storage.engines.postgres.connection import Raw

_LOCK = "SELECT pg_advisory_xact_lock(7161736577)"
_TABLE = "CREATE TABLE IF NOT EXISTS agentvm_schema (version bigint NOT NULL)"
_KEY_TABLE = "CREATE TABLE IF NOT EXISTS agentvm_server_key (check_value bytea NOT NULL)"
_MARK_TABLE = "CREATE TABLE IF NOT EXISTS agentvm_commits (writer bigint PRIMARY KEY, mark bigint NOT NULL)"
_VERSION = "SELECT max(version) FROM agentvm_schema"
_SET_VERSION = "INSERT INTO agentvm_schema (version) VALUES ($1)"


@cache
def load_migrations() -> tuple[tuple[int, str], ...]:
    """The number and the SQL of every migration, in order."""
    folder = resources.files("agentvm.storage.engines.postgres") / "schema"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(enumerate((file.read_text("utf-8") for file in files), start=int(files[0].name.partition("_")[0])))


def migrate(raw: Raw, migrations: tuple[tuple[int, str], ...]) -> None:
    """Applies missing migrations. A database from a newer AgentVM is left untouched: `MigrationUnknown`."""
    newest = migrations[-1][0]
    with raw.transaction():
        raw.execute(_LOCK)
        raw.execute(_TABLE)
        raw.execute(_KEY_TABLE)
        raw.execute(_MARK_TABLE)
    for number, script in migrations:
        with raw.transaction():
            raw.execute(_LOCK)
            version: int = raw.execute(_VERSION).fetchall()[0][0] or 0
            if version > newest:
                raise MigrationUnknown(
                    f"The database has schema version {version}, but this AgentVM knows only versions up to {newest}. "
                    "Start the newer AgentVM that wrote it, or restore a backup from before the upgrade."
                )
            if version < number:
                raw.execute(script)
                raw.execute(_SET_VERSION, (number,))
