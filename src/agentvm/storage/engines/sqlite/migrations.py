"""Migrations — brings a database to the schema this AgentVM knows.

The files `schema/NNNN_<subject>.sql` are append-only: a released one never changes. `PRAGMA user_version` counts those that
were applied. Each runs in one transaction together with its count, so a crash leaves a version, never a mixture. A new database
is a copy of one that was migrated in memory.
"""

import os
import tempfile
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path

import apsw

from agentvm.errors import MigrationUnknown
from agentvm.storage.engines.sqlite.placing import COMPANIONS, sync_directory

_WAL_VERSIONS = slice(18, 20)
"""The bytes of a database's header that say whether it has a write-ahead log."""


@cache
def load_migrations() -> tuple[str, ...]:
    """The SQL of every migration, in order; number n brings version n - 1 to n."""
    folder = resources.files("agentvm.storage.engines.sqlite") / "schema"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(file.read_text("utf-8") for file in files)


def migrate(connection: apsw.Connection, migrations: tuple[str, ...]) -> None:
    """Applies missing migrations. A database from a newer AgentVM is left untouched: `MigrationUnknown`."""
    version: int = connection.pragma("user_version")
    if version > len(migrations):
        raise MigrationUnknown(
            f"The database has schema version {version}, but this AgentVM knows only versions up to {len(migrations)}. "
            "Start the newer AgentVM that wrote it, or restore a backup from before the upgrade."
        )
    # A migration may declare a table anew in place, which a distrusted schema forbids.
    defensive = connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, -1)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    try:
        for number, script in enumerate(migrations[version:], start=version + 1):
            with connection:
                connection.execute(script).fetchall()
                connection.pragma("user_version", number)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, defensive)


def distrust_schema(connection: apsw.Connection) -> None:
    """Distrusts the schema of a foreign file: it runs no code but SQLite's own, and no write bypasses the tables."""
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)


Schema = frozenset[tuple[str, str, str, str | None]]
"""Type, name, table and text of everything in a schema."""

_STATISTICS: Schema = frozenset(
    {
        ("table", "sqlite_stat1", "sqlite_stat1", "CREATE TABLE sqlite_stat1(tbl,idx,stat)"),
        ("table", "sqlite_stat4", "sqlite_stat4", "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)"),
    }
)
"""Tables that `ANALYZE` and `PRAGMA optimize` add."""


@cache
def schema_at(version: int) -> Schema:
    """The schema that the migrations up to a version create."""
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, load_migrations()[:version])
        return read_schema(connection)


def read_schema(connection: apsw.Connection) -> Schema:
    """The schema of a database, without SQLite's own statistics."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")
    return frozenset((kind, name, table, sql) for kind, name, table, sql in rows) - _STATISTICS


def create(connection: apsw.Connection, migrations: tuple[str, ...]) -> None:
    """The same for a new database in memory, sixty times as fast from the second on: it is copied."""
    with closing(apsw.Connection(":memory:")) as source:
        source.deserialize("main", _migrated(migrations))
        with connection.backup("main", source, "main") as copy:
            copy.step()


def create_file(path: Path, migrations: tuple[str, ...]) -> None:
    """Creates the file with its whole schema, private and synced once, or not at all; one that is there stays as it is.

    It gets its final name when it is complete, and only if no other process has created one in the meantime. If that is not
    possible nothing happens: the next process that opens the file creates and migrates it, or reports the error.
    """
    # A log without its database would be taken for that of the new one; SQLite drops it where the database is empty.
    if any(os.path.lexists(f"{path}{ending}") for ending in ("", *COMPANIONS)):
        return
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-")
    except OSError:
        return
    try:
        with open(descriptor, "wb") as file:
            file.write(_with_log(_migrated(migrations)))
            file.flush()
            os.fsync(file.fileno())
        os.link(name, path)
        sync_directory(path.parent)
    except OSError:
        return
    finally:
        os.unlink(name)


def _with_log(database: bytes) -> bytes:
    """The database in the mode that `PRAGMA journal_mode = wal` sets."""
    changed = bytearray(database)
    changed[_WAL_VERSIONS] = b"\2\2"
    return bytes(changed)


@cache
def _migrated(migrations: tuple[str, ...]) -> bytes:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, migrations)
        return connection.serialize("main")
