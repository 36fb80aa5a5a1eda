"""A server that is killed while a run of a schedule begins: the run begins once."""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.faults.schedule_server import DEFINITIONS, STEPS, config
from tests.operations.fixtures import Desk
from tests.schedules.fixtures import HOUR, START

from agentvm.app import open_agentvm
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import ContainerId
from agentvm.vm import AgentVM


def opened(path: Path, now: int) -> Any:
    drivers = {"scripted": ScriptedDriver()}
    return open_agentvm(config(str(path)), drivers=drivers, definitions=DEFINITIONS, clock=lambda: now)


async def read(vm: AgentVM, query: str) -> list[Any]:
    return await vm.store._database.read(lambda connection: list(connection.fetch(query)))


@pytest.mark.parametrize("step", STEPS)
async def test_a_run_begins_once_whenever_the_server_is_killed(tmp_path: Path, step: str) -> None:
    async with opened(tmp_path, START) as vm:
        made = await Desk(vm, vm.attach()).ask(
            "schedule_create", agent="default", cron="0 * * * *", message="go", sessionMode="new", containerId="c1"
        )
        assert made["schedule"]["nextAt"] == START + HOUR
    arguments = [sys.executable, "-m", "tests.faults.schedule_server", str(tmp_path), str(START + HOUR), step]
    with anyio.fail_after(60):
        killed = await anyio.run_process(arguments, check=False)
    assert killed.returncode == -9, killed.stderr.decode()[-2_000:]
    async with opened(tmp_path, START + HOUR + 1_000) as vm:
        desk = Desk(vm, vm.attach())
        desk.peer.join(ContainerId("c1"), follow=True)
        with anyio.fail_after(60):
            while not (turns := await read(vm, "SELECT client_key, outcome FROM turns")) or turns[0][1] is None:
                await desk.peer.channel.take()
        schedule_id = made["schedule"]["scheduleId"]
        assert turns == [(f"sched:{schedule_id}:{START + HOUR}", "completed")]
        assert await read(vm, "SELECT state, due_at FROM runs") == [("started", START + HOUR)]
        assert await read(vm, "SELECT next_at FROM schedules") == [(START + 2 * HOUR,)]
        named = await read(vm, "SELECT 1 FROM aliases WHERE gateway = 'sources'")
        assert len(named) == 1
