"""A server with schedules on a clock of its own, and how its time passes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import anyio
from tests.operations.fixtures import Desk

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.events.base import EventData, EventScope
from agentvm.model.definition import Definition
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, TenantId
from agentvm.model.schedule import RunRecord, ScheduleId
from agentvm.model.turn import Turn
from agentvm.vm import AgentVM

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = 1_795_046_400_000
"""2026-11-19 00:00 UTC, a Thursday."""


class Times:
    """A server whose clock moves only when it is told to; its schedules are looked at only then, too."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.vm = desk, desk.vm
        self.missed: list[tuple[int, str]] = []

    async def create(self, cron: str = "0 * * * *", **fields: Any) -> Any:
        given = {"agent": "default", "message": "Report", "cron": cron, **fields}
        reply = await self.desk.ask("schedule_create", **given)
        assert "schedule" in reply, reply
        self.desk.peer.join(ContainerId(reply["schedule"]["containerId"]), follow=True)
        return reply["schedule"]

    async def pass_time(self, clock: "Hand", ms: int) -> None:
        """Lets time pass in one go, as in an outage, and looks until nothing more is to be done now."""
        clock.now += ms
        while await self.look():
            pass

    async def look(self) -> int:
        with anyio.fail_after(60):
            return await self.vm.schedules.run_due(self.vm.starter, self._tell)

    def _tell(self, tenant_id: TenantId, scope: EventScope, data: EventData) -> None:
        self.missed.append((data.count, data.reason))  # type: ignore[attr-defined]

    async def runs(self, made: Any) -> tuple[RunRecord, ...]:
        """Oldest first."""
        store = self.vm.store.tenant(DEFAULT_TENANT).schedules(None)
        return (await store.runs(ScheduleId(made["scheduleId"])))[::-1]

    async def turns(self, made: Any) -> list[Turn]:
        """The turns of a schedule's runs, each after it has ended."""
        tenant, found = self.vm.store.tenant(DEFAULT_TENANT), list[Turn]()
        for run in await self.runs(made):
            if run.turn_id is not None:
                with anyio.fail_after(60):
                    while (turn := await tenant.find_turn(run.turn_id)) is None or turn.outcome is None:
                        await self.desk.peer.channel.take()
                found.append(turn)
        return found


class Hand:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


@asynccontextmanager
async def open_times(driver: Any = None, **about: Any) -> AsyncIterator[tuple[Times, Hand]]:
    clock = Hand()
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY))
    definitions = [Definition(name="default"), *about.pop("definitions", ())]
    driver = driver or ScriptedDriver()
    opening = open_agentvm(config, drivers={"scripted": driver}, definitions=definitions, clock=clock, **about)
    # Its own task would look at the schedules as well, at moments that no test chooses.
    with patch.object(AgentVM, "run_schedules", _rest):
        async with opening as vm:
            yield Times(Desk(vm, vm.attach())), clock


async def _rest(vm: AgentVM) -> None:
    pass
