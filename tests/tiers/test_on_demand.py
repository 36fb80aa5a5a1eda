import subprocess
import sys

import anyio
import pytest

from agentvm.errors import ShuttingDown
from agentvm.model.settings import Settings
from agentvm.model.tier import Job, Need
from agentvm.model.tool_settings import ToolNetwork, ToolSettings
from agentvm.tiers.on_demand import TiersOnDemand

SETTINGS = Settings(tools=ToolSettings(slots=2, network=ToolNetwork(allow=("127.0.0.1",))))


async def test_the_first_need_opens_the_tiers_and_the_end_closes_them() -> None:
    tiers = TiersOnDemand(lambda: SETTINGS, lambda: 0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tiers.run)
        scheduler = await tiers.scheduler()
        assert await tiers.scheduler() is scheduler
        placed, result = await scheduler.run(Need(engine="python"), Job(engine="python", code="1"), tenant="a")
        assert (placed.tier, result.value) == ("process", 1)
        tasks.cancel_scope.cancel()
    with pytest.raises(ShuttingDown):
        await tiers.scheduler()


async def test_a_server_that_stops_before_any_need_is_not_waited_for() -> None:
    tiers = TiersOnDemand(lambda: SETTINGS, lambda: 0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tiers.run)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("program", ["import agentvm.app", "import agentvm.cli.main", "import agentvm.operations.table"])
def test_nothing_of_a_jail_is_loaded_before_it_is_needed(program: str) -> None:
    code = f"{program}; import sys; print(*(name for name in sys.modules if name.startswith('agentvm.tiers.')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"agentvm.tiers.base", "agentvm.tiers.on_demand"}
