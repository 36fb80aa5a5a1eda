"""Engine — the database engine of this server: opens stores, locks data directories, takes and restores backups.

The only module above `agentvm.storage.engines` that names an engine. Today there is one: SQLite in the data directory.
"""

from agentvm.storage.engines.sqlite.backup import SERVER_KEY, BackupManifest, Made, make_backup
from agentvm.storage.engines.sqlite.datadir import DATABASE, lock_data_dir
from agentvm.storage.engines.sqlite.opening import open_store
from agentvm.storage.engines.sqlite.private import open_to_others
from agentvm.storage.engines.sqlite.reading import ReadStore, read_data_dir, read_file
from agentvm.storage.engines.sqlite.restore import Restored, check_backup, restore_backup

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
    "open_store",
    "open_to_others",
    "read_data_dir",
    "read_file",
    "restore_backup",
]  # fmt: skip
