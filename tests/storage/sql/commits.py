"""Commits — how many rows each commit of a store changes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import apsw

from agentvm.storage.engine import open_store
from agentvm.storage.sql.store import Store

ROWS_MAX = 2_000
"""Rows that a commit may change, with those of indexes that triggers keep: a few hundredths of a second."""
MANY = 3_000
"""More messages than that, were they one commit."""


class Commits:
    """How many rows each commit of every connection has changed."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def watch(self, connection: apsw.Connection) -> None:
        before = connection.total_changes()

        def note() -> bool:
            nonlocal before
            self.rows.append(connection.total_changes() - before)
            before = connection.total_changes()
            return False

        connection.set_commit_hook(note)


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[Store]:
    with anyio.fail_after(60):
        async with open_store(tmp_path / "agentvm.db") as store:
            yield store


def largest(commits: Commits) -> int:
    worst = max(commits.rows)
    assert worst < ROWS_MAX, f"a commit changed {worst} rows"
    return worst
