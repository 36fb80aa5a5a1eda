"""Engine — the database engine of this server: opens stores, locks data directories, takes and restores backups.

The only module above `agentvm.storage.engines` that names an engine: SQLite in the data directory, or PostgreSQL elsewhere.
"""

from contextlib import AbstractAsyncContextManager

from agentvm.errors import ConfigInvalid
from agentvm.storage.engines.sqlite.backup import SERVER_KEY, BackupManifest, Made, make_backup
from agentvm.storage.engines.sqlite.datadir import DATABASE, lock_data_dir
from agentvm.storage.engines.sqlite.opening import open_store
from agentvm.storage.engines.sqlite.private import open_to_others
from agentvm.storage.engines.sqlite.reading import ReadStore, read_data_dir, read_file
from agentvm.storage.engines.sqlite.restore import Restored, check_backup, restore_backup
from agentvm.storage.sql.store import Store

__all__ = [
    "DATABASE",
    "SERVER_KEY",
    "BackupManifest",
    "Made",
    "ReadStore",
    "Restored",
    "check_backup",
    "lock_data_dir",
    "make_backup",
    "open_postgres",
    "open_store",
    "open_to_others",
    "read_data_dir",
    "read_file",
    "restore_backup",
]  # fmt: skip


def open_postgres(url: str) -> AbstractAsyncContextManager[Store]:
    """The store in a PostgreSQL database. `ConfigInvalid` without the package for it."""
    try:
        # Few servers need it.
        from agentvm.storage.engines.postgres import opening  # noqa: PLC0415
    except ImportError as error:
        raise ConfigInvalid(f"system.database: PostgreSQL needs pip install 'agentvm[postgres]' ({error})") from error
    return opening.open_store(url)
