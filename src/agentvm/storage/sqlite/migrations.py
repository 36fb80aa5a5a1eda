"""Migrations — brings a database to the schema this AgentVM knows.

The files `schema/NNNN_<what>.sql` are append-only: a released one never changes. `PRAGMA user_version` counts those
that were applied. Each runs in one transaction together with its count, so a crash leaves a version, never a mixture.
"""

from contextlib import closing
from functools import cache
from importlib import resources

import apsw

from agentvm.errors import MigrationUnknown


def load_migrations() -> tuple[str, ...]:
    """The SQL of every migration, in order; number n brings version n - 1 to n."""
    folder = resources.files("agentvm.storage.sqlite") / "schema"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return tuple(file.read_text("utf-8") for file in files)


def migrate(connection: apsw.Connection, migrations: tuple[str, ...]) -> None:
    """Applies what is missing. A database from a newer AgentVM is left untouched: `MigrationUnknown`."""
    version: int = connection.pragma("user_version")
    if version > len(migrations):
        raise MigrationUnknown(
            f"The database has schema version {version}, but this AgentVM knows only versions up to {len(migrations)}. "
            "Start the newer AgentVM that wrote it, or restore a backup from before the upgrade."
        )
    for number, script in enumerate(migrations[version:], start=version + 1):
        with connection:
            connection.execute(script).fetchall()
            connection.pragma("user_version", number)


def create(connection: apsw.Connection, migrations: tuple[str, ...]) -> None:
    """The same for a new database in memory, sixty times as fast from the second on: it is copied.

    A file is migrated all the same, for somebody else may open it at this moment, and a copy would overwrite what they write.
    """
    with closing(apsw.Connection(":memory:")) as source:
        source.deserialize("main", _migrated(migrations))
        with connection.backup("main", source, "main") as copy:
            copy.step()


@cache
def _migrated(migrations: tuple[str, ...]) -> bytes:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, migrations)
        return connection.serialize("main")
