"""Opening — a store on a PostgreSQL database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from agentvm.errors import ConfigInvalid
from agentvm.storage.engines.postgres.database import CAPACITY_MAX, READERS_MAX, PostgresDatabase, open_database, open_node
from agentvm.storage.sql.arrivals import finish_arrivals
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.nodes import NodeStore
from agentvm.storage.sql.store import Store


@asynccontextmanager
async def open_store(
    url: str, *, key_check: bytes | None = None, readers: int = READERS_MAX, capacity: int = CAPACITY_MAX
) -> AsyncGenerator[Store]:
    """The store in a database, created and migrated as needed. `ConfigInvalid` if it belongs to another server key."""
    async with open_database(url, readers=readers, capacity=capacity) as database:
        yield await _store(database, key_check)


@asynccontextmanager
async def open_shared_store(
    url: str, name: str, version: str, key_check: bytes | None = None
) -> AsyncGenerator[tuple[Store, NodeStore]]:
    """The store in a database that several nodes share, of a new node; and the nodes."""
    async with open_node(url, name, version) as (database, beats):
        yield await _store(database, key_check), NodeStore(database, beats)


async def _store(database: PostgresDatabase, key_check: bytes | None) -> Store:
    await database.write(lambda connection: bind_key(connection, key_check))
    await finish_arrivals(database)
    store = Store(database)
    store.hooked |= await store.due_deliveries.tenants()
    return store


def bind_key(connection: Connection, key_check: bytes | None) -> None:
    """Binds the database to the server key whose check value this is, at the first start with one; another key is refused."""
    bound = [bytes(value) for (value,) in connection.fetch("SELECT check_value FROM agentvm_server_key")]
    if not bound:
        if key_check is not None:
            connection.execute("INSERT INTO agentvm_server_key (check_value) VALUES (?)", (key_check,))
    elif key_check not in bound:
        raise ConfigInvalid(
            "The PostgreSQL database belongs to another server key, without which no API key and no secret of it can be used: "
            "put that server.key into the data directory, or set AVM_SERVER_KEY to it"
        )
