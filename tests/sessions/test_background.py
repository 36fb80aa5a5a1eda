import anyio

from agentvm.config import ServerConfig
from agentvm.runtime.billing import Unmetered
from agentvm.runtime.memories import Memories
from agentvm.sessions.background import BackgroundWork
from agentvm.storage.engine import open_store


async def test_it_goes_on_until_it_is_cancelled() -> None:
    async with open_store(None) as store:
        background = BackgroundWork(
            store,
            lambda: 1,
            lambda prefix: f"{prefix}_1",
            by=lambda _: "off",
            settings=lambda _: ServerConfig(),
            choose=lambda *_: None,  # type: ignore[arg-type]  # It is never asked.
            meter=Unmetered(),
        )
        assert len(background.effectors) == 5
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(background.run, lambda *_: None, Memories(store))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
