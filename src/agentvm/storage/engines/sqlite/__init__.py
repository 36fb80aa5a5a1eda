"""SQLite — the embedded engine: one file, one writer with group commit, readers beside it."""
