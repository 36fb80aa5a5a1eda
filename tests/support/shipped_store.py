"""Shipped store — servers of tests need not publish the resources that ship with them: a new SQLite store begins with them.

Publishing them is most of what opening a server costs. Whether they are published as they should be is asked in
`tests/resources`, and by every server that is a process of its own.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from unittest.mock import patch

from agentvm.model.ids import id_factory
from agentvm.resources.centre import make_centre
from agentvm.resources.shipped import publish_shipped
from agentvm.storage.engine import open_store
from agentvm.storage.engines.sqlite import migrations
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.sql.store import Store

_template: list[bytes] = []


@asynccontextmanager
async def open_shipped_store(path: Path | None) -> AsyncIterator[Store]:
    """As `open_store`; a store that is there already stays as it is."""
    if not _template:
        _template.append(await _publish())
    async with AsyncExitStack() as stack:
        with patch.object(migrations, "_migrated", return_value=_template[0]):
            store = await stack.enter_async_context(open_store(path))
        yield store


async def _publish() -> bytes:
    async with open_database(None) as database:
        await publish_shipped(make_centre(Store(database), lambda: 0, id_factory(lambda: 0, secrets.randbits)))
        return await database.apart(lambda connection: connection.raw.serialize("main"))
