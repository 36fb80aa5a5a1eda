"""Schedules — how late runs begin when many are due, and what schedules cost that wait.

    python -m bench.schedules [--schedules 100000] [--rate 100] [--seconds 10]

All schedules are rows of one file. For some seconds `rate` of them are due in each second, the others in years. A run is late
by the time between its due time and the commit that accepts its turn. Goals: p99 of at most one second at 100 a second, and no
CPU time while all of them wait.
"""

import argparse
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.schedule import Schedule, ScheduleId
from agentvm.sessions.images import ImageLibrary
from agentvm.storage.sql.connection import Connection
from agentvm.storage.sql.records import Columns
from agentvm.vm import OPEN_ACCESS, AgentVM, system_clock
from bench.measure import table

HOME = ContainerId("default")
COLUMNS = Columns(Schedule)
YEARS_MS = 3 * 365 * 86_400_000
LEAD_MS = 3_000
WAITING_SECONDS = 5.0


async def fill(vm: AgentVM, schedules: int, due: int, rate: int) -> None:
    """Adds the schedules: `due` of them at so many a second, beginning in a moment."""
    image, _, _ = await ImageLibrary(vm.workspace(OPEN_ACCESS)).open(HOME, "bench")
    begin = system_clock() + LEAD_MS + schedules // 20
    first = Schedule(
        schedule_id=ScheduleId(""),
        name="bench",
        container_id=HOME,
        image_id=image.image_id,
        message="go",
        cron="0 0 1 1 *",
        zone="UTC",
        created_by="bench",
        created_at=0,
        updated_at=0,
    )
    rows: list[tuple[object, ...]] = []
    for number in range(schedules):
        at = begin + number * 1000 // rate if number < due else begin + YEARS_MS
        one = msgspec.structs.replace(first, schedule_id=ScheduleId(f"sched_{number}"), next_at=at, wake_at=at)
        rows.append((DEFAULT_TENANT, *COLUMNS.encode(one)))
    add = f"INSERT INTO schedules (tenant_id, {COLUMNS.text}) VALUES (?, {COLUMNS.marks})"
    for start in range(0, schedules, 5_000):
        piece = rows[start : start + 5_000]
        await vm.store._database.write(partial(_add_many, add, piece))


def _add_many(statement: str, rows: list[tuple[object, ...]], connection: Connection) -> None:
    connection.many(statement, rows)


async def wait_for(vm: AgentVM, runs: int) -> list[int]:
    """Returns by how many ms each run was late, once all have begun."""
    query = "SELECT at - due_at FROM runs WHERE state = 'started'"
    with anyio.fail_after(300):
        while True:
            rows = await vm.store._database.read(lambda connection: connection.fetch(query))
            if len(rows) >= runs:
                return sorted(int(late) for (late,) in rows)
            await anyio.sleep(0.5)


async def cpu_ms(seconds: float) -> float:
    before = time.process_time()
    await anyio.sleep(seconds)
    return (time.process_time() - before) * 1000


async def measure(path: Path, schedules: int, rate: int, seconds: int) -> list[tuple[object, ...]]:
    config = ServerConfig(system=SystemSettings(data_dir=str(path)))
    definitions = [Definition(name="bench")]
    async with open_agentvm(config, drivers={"scripted": ScriptedDriver()}, definitions=definitions) as vm:
        await anyio.sleep(2)
        without = await cpu_ms(WAITING_SECONDS)
        await fill(vm, schedules, rate * seconds, rate)
        vm.schedules.wake()
        late = await wait_for(vm, rate * seconds)
        await anyio.sleep(2)
        waiting = await cpu_ms(WAITING_SECONDS)
    turns = len(late)
    return [
        ("schedules", schedules),
        ("runs, a second", f"{turns}, {rate}"),
        ("late p50", f"{late[turns // 2]} ms"),
        ("late p99", f"{late[turns * 99 // 100]} ms"),
        ("late at most", f"{late[-1]} ms"),
        (f"CPU in {WAITING_SECONDS:g} s without schedules", f"{without:.0f} ms"),
        (f"CPU in {WAITING_SECONDS:g} s while they wait", f"{waiting:.0f} ms"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=10)
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        rows = anyio.run(measure, Path(folder), args.schedules, args.rate, args.seconds)
    print(table([(str(name), str(value)) for name, value in rows]))


if __name__ == "__main__":
    main()
