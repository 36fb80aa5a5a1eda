"""Opening — a store on a SQLite database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from agentvm.storage.engines.sqlite.database import CAPACITY_MAX, READERS_MAX, open_database
from agentvm.storage.sql.arrivals import finish_arrivals
from agentvm.storage.sql.store import Store


@asynccontextmanager
async def open_store(path: Path | None, *, readers: int = READERS_MAX, capacity: int = CAPACITY_MAX) -> AsyncGenerator[Store]:
    """The store in the given file, created and migrated as needed; in memory for None. Leaving it flushes and closes."""
    async with open_database(path, readers=readers, capacity=capacity) as database:
        await finish_arrivals(database)
        store = Store(database)
        store.hooked |= await store.due_deliveries.tenants()
        yield store
