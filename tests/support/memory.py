"""An AgentVM in memory that need not publish the resources that ship with it: it begins with a copy of a store that has them.

Publishing them is most of what opening one costs. Whether they are published as they should be is asked elsewhere.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from unittest.mock import patch

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig
from agentvm.model.ids import id_factory
from agentvm.resources.centre import make_centre
from agentvm.resources.shipped import publish_shipped
from agentvm.storage.engines.sqlite import migrations
from agentvm.storage.engines.sqlite.database import open_database
from agentvm.storage.sql.store import Store
from agentvm.vm import AgentVM

_template: list[bytes] = []


@asynccontextmanager
async def open_in_memory(config: ServerConfig, **options: Any) -> AsyncIterator[AgentVM]:
    """As `open_agentvm`, for a config without a data directory."""
    assert config.system.data_dir == MEMORY
    if not _template:
        _template.append(await _publish())
    async with AsyncExitStack() as stack:
        with patch.object(migrations, "_migrated", return_value=_template[0]):
            vm = await stack.enter_async_context(open_agentvm(config, **options))
        yield vm


async def _publish() -> bytes:
    async with open_database(None) as database:
        await publish_shipped(make_centre(Store(database), lambda: 0, id_factory(lambda: 0, secrets.randbits)))
        return await database.apart(lambda connection: connection.raw.serialize("main"))
