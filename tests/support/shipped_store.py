"""Shipped store — servers of tests need not publish the resources that ship with them: a new SQLite store begins with them.

Publishing them is most of what opening a server costs. Whether they are published as they should be is asked in
`tests/resources`, and by every server that is a process of its own.
"""

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from agentvm.model.ids import id_factory
from agentvm.resources.centre import make_centre
from agentvm.resources.shipped import publish_shipped
from agentvm.storage.engine import open_postgres, open_store
from agentvm.storage.engines.sqlite import migrations
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.sql.store import Store

_template: list[bytes] = []
_openings: list[None] = []
"""One entry for each store that is being opened."""


@asynccontextmanager
async def open_shipped_store(path: Path | None) -> AsyncIterator[Store]:
    """As `open_store`; a store that is there already stays as it is."""
    if not _template:
        _template.append(await _publish())
    async with AsyncExitStack() as stack:
        with _new_stores_are_shipped():
            store = await stack.enter_async_context(open_store(path))
        yield store


_migrated = migrations._migrated


@contextmanager
def _new_stores_are_shipped() -> Iterator[None]:
    """Counts, since stores are also opened at the same time."""
    # Assigned: `patch` takes a millisecond, which is much of what opening a store does.
    migrations._migrated = lambda _: _template[0]  # type: ignore[assignment]
    _openings.append(None)
    try:
        yield
    finally:
        _openings.pop()
        if not _openings:
            migrations._migrated = _migrated


async def ship(url: str) -> None:
    """Publishes what ships into a database of PostgreSQL."""
    async with open_postgres(url) as store:
        await _publish_into(store)


async def _publish_into(store: Store) -> None:
    await publish_shipped(make_centre(store, lambda: 0, id_factory(lambda: 0, secrets.randbits)))


async def _publish() -> bytes:
    async with open_database(None) as database:
        await _publish_into(Store(database))
        return await database.apart(lambda connection: connection.raw.serialize("main"))
