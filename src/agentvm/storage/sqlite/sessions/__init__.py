"""Sessions — listing, keeping and finding them in SQLite."""
