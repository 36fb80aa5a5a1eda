from pathlib import Path

import anyio
from tests.runtime.fixtures import Ticking, open_world

from agentvm.drivers.scripted import Pause, ScriptedDriver
from agentvm.observability.gauges import Instruments
from agentvm.observability.sampler import Sampler


async def test_what_runs_and_what_waits_is_seen(tmp_path: Path) -> None:
    hold = anyio.Event()
    async with open_world(ScriptedDriver(lambda prompt: [Pause(hold)]), path=tmp_path / "a.db") as world:
        instruments = Instruments(
            runtime=world.runtime,
            store=world.store,
            sampler=Sampler(lambda: 7),
            clock=Ticking(),
            started_at=1,
            database=tmp_path / "a.db",
            connections=lambda: 1,
        )
        agent = world.start()
        for _ in range(3):
            await world.say(agent, "hello")
        with anyio.fail_after(60):
            while (now := instruments.read()).messages_waiting != 2 or now.journal_waiting or now.database_waiting:
                await anyio.lowlevel.checkpoint()
        assert (now.turns_running, now.messages_waiting, now.agents, now.containers) == (1, 2, 1, 1)
        assert (now.journal_waiting, now.database_waiting, now.evicted, now.failing, now.hindrance) == (0, 0, 0, False, None)
        assert now.wal_bytes > 0
        assert [one.name for one in now.providers] == ["scripted"]
        assert now.uptime >= 1.0
