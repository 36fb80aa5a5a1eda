"""Engine — the database engine of this server: opens stores, locks data directories, takes and restores backups.

The only module above `agentvm.storage.engines` that names an engine: SQLite in the data directory, or PostgreSQL elsewhere.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from agentvm.errors import ConfigInvalid
from agentvm.storage.base import CopiedTable
from agentvm.storage.engines.sqlite.backup import SERVER_KEY, BackupManifest, BackupResult, Progress, make_backup
from agentvm.storage.engines.sqlite.datadir import DATABASE, lock_data_dir
from agentvm.storage.engines.sqlite.opening import open_store
from agentvm.storage.engines.sqlite.private import is_open_to_others
from agentvm.storage.engines.sqlite.reading import ReadStore, read_data_dir, read_file
from agentvm.storage.engines.sqlite.restore import Restored, check_backup, restore_backup
from agentvm.storage.sql.nodes import NodeStore
from agentvm.storage.sql.store import Store

__all__ = [
    "DATABASE",
    "SERVER_KEY",
    "BackupManifest",
    "BackupResult",
    "ReadStore",
    "Restored",
    "check_backup",
    "copy_to_postgres",
    "is_open_to_others",
    "lock_data_dir",
    "make_backup",
    "open_postgres",
    "open_shared",
    "open_store",
    "read_data_dir",
    "read_file",
    "restore_backup",
]  # fmt: skip


_NO_PACKAGE = "system.database: PostgreSQL needs pip install 'agentvm[postgres]'"


def open_postgres(url: str, key_check: bytes | None = None) -> AbstractAsyncContextManager[Store]:
    """The store in a PostgreSQL database. `ConfigInvalid` without the package for it, or if it belongs to another server key.

    `key_check` is the check value of the server key, if there is one yet.
    """
    try:
        # Few servers need it.
        from agentvm.storage.engines.postgres import opening  # noqa: PLC0415
    except ImportError as error:
        raise ConfigInvalid(f"{_NO_PACKAGE} ({error})") from error
    return opening.open_store(url, key_check=key_check)


def open_shared(
    url: str, name: str, version: str, key_check: bytes | None = None
) -> AbstractAsyncContextManager[tuple[Store, NodeStore]]:
    """The store in a PostgreSQL database that several nodes share, as a new node of that name; and the nodes."""
    try:
        from agentvm.storage.engines.postgres import opening  # noqa: PLC0415
    except ImportError as error:
        raise ConfigInvalid(f"{_NO_PACKAGE} ({error})") from error
    return opening.open_shared_store(url, name, version, key_check)


def copy_to_postgres(data_dir: Path, url: str, progress: Progress) -> tuple[CopiedTable, ...]:
    """Copies the database of a data directory, whose server is stopped, into an empty PostgreSQL database; all or nothing."""
    try:
        from agentvm.storage.engines.postgres import copying  # noqa: PLC0415
    except ImportError as error:
        raise ConfigInvalid(f"{_NO_PACKAGE} ({error})") from error
    with lock_data_dir(data_dir) as directory:
        return copying.copy_from_sqlite(directory / DATABASE, url, progress)
