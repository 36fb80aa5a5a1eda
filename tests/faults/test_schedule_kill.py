"""A server that is killed again and again while runs of schedules begin: each run begins once.

`AVM_FAULT_SCHEDULE_KILLS` says how often, for a night (24).
"""

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
from tests.faults.schedule_server import DEFINITIONS, config
from tests.operations.fixtures import Desk
from tests.schedules.fixtures import HOUR, START
from tests.support.engines import url_of

from agentvm.app import open_agentvm
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.ids import ContainerId
from agentvm.storage.engines.sqlite.datadir import DATABASE
from agentvm.vm import AgentVM

KILLS = int(os.environ.get("AVM_FAULT_SCHEDULE_KILLS", "24"))
SEED = int(os.environ.get("AVM_FAULT_SEED", "1"))
SCHEDULES = 8
LONGEST_KILL_SECONDS = 5


def opened(path: Path, now: int) -> Any:
    drivers = {"scripted": ScriptedDriver()}
    return open_agentvm(config(str(path)), drivers=drivers, definitions=DEFINITIONS, clock=lambda: now)


async def read(vm: AgentVM, query: str) -> list[Any]:
    return await vm.store._database.read(lambda connection: list(connection.fetch(query)))


async def begin_schedules(path: Path) -> list[str]:
    async with opened(path, START) as vm:
        desk, made = Desk(vm, vm.attach()), list[Any]()
        for number in range(SCHEDULES):
            mode = ("same", "new")[number % 2]
            given = {"cron": "0 * * * *", "message": "go", "sessionMode": mode, "overlap": "queue", "containerId": "c1"}
            made.append((await desk.ask("schedule_create", agent="default", **given))["schedule"])
        assert {each["nextAt"] for each in made} == {START + HOUR}
        return [each["scheduleId"] for each in made]


async def test_every_run_begins_once_whenever_the_server_is_killed(tmp_path: Path) -> None:
    schedules = await begin_schedules(tmp_path)
    given = (str(tmp_path), str(START), str(KILLS), str(SEED), *filter(None, (url_of(tmp_path / DATABASE),)))
    arguments = ["-m", "tests.faults.schedule_server", *given]
    with anyio.fail_after(60 + KILLS * LONGEST_KILL_SECONDS):
        ended = await anyio.run_process([sys.executable, *arguments], check=False)
    assert ended.returncode == 0, ended.stderr.decode()[-2_000:]
    hours = json.loads(ended.stdout)["hours"]
    assert hours > 1, "no run ever began"
    expected = Counter(f"sched:{each}:{START + hour * HOUR}" for each in schedules for hour in range(1, hours + 1))
    async with opened(tmp_path, START + hours * HOUR) as vm:
        desk = Desk(vm, vm.attach())
        desk.peer.join(ContainerId("c1"), follow=True)
        with anyio.fail_after(60):
            while len(turns := await read(vm, "SELECT client_key, outcome FROM turns")) < len(expected) or None in [
                outcome for _, outcome in turns
            ]:
                await desk.peer.channel.take()
        assert Counter(key for key, _ in turns) == expected
        assert {outcome for _, outcome in turns} == {"completed"}
        assert await read(vm, "SELECT DISTINCT state, count FROM runs") == [("started", 1)]
        assert await read(vm, "SELECT DISTINCT next_at FROM schedules") == [(START + (hours + 1) * HOUR,)]
        # Those of the mode `same` have one session each, the others one for each run.
        assert len(await read(vm, "SELECT 1 FROM aliases WHERE gateway = 'sources'")) == SCHEDULES // 2 * (1 + hours)
