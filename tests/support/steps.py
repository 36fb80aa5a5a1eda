"""Steps that SQLite takes, over all connections that are opened from now on: what a statement reads shows in them."""

from typing import Any

import apsw
import pytest

from agentvm.storage.engines.sqlite.connection import SqliteConnection


class Steps:
    """Counts until the end of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.taken = 0
        make = SqliteConnection.__init__

        def watched(connection: SqliteConnection, raw: apsw.Connection) -> None:
            raw.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._count)
            make(connection, raw)

        monkeypatch.setattr(SqliteConnection, "__init__", watched)

    def _count(self, event: dict[str, Any]) -> None:
        self.taken += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
