"""Opening — a store on a PostgreSQL database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agentvm.storage.engines.postgres.database import CAPACITY_MAX, READERS_MAX, open_database
from agentvm.storage.sql.arrivals import finish_arrivals
from agentvm.storage.sql.store import Store


@asynccontextmanager
async def open_store(url: str, *, readers: int = READERS_MAX, capacity: int = CAPACITY_MAX) -> AsyncGenerator[Store]:
    """The store in a database, created and migrated as needed."""
    async with open_database(url, readers=readers, capacity=capacity) as database:
        await finish_arrivals(database)
        store = Store(database)
        store.hooked |= await store.due_deliveries.tenants()
        yield store
