"""SQLite — the embedded store: one file, one writer with group commit, readers beside it."""

from agentvm.storage.sqlite.store import SqliteStore, open_store

__all__ = ["SqliteStore", "open_store"]
