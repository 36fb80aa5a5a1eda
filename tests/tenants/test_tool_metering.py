"""How many tools of a tenant run at a time."""

import anyio
import pytest
from tests.tenants.test_quota import ACME, RIVAL, opened

from agentvm.errors import QuotaExceeded
from agentvm.model.account import Quota
from agentvm.model.ids import TenantId
from agentvm.tenants.tool_metering import ToolMetering


async def test_calls_beyond_the_quota_wait_and_neighbours_do_not() -> None:
    async with opened(Quota(metric="running_tools", hard=2)) as (quotas, _, _):
        tools, running, most = ToolMetering(quotas), dict[TenantId, int](), dict[TenantId, int]()
        free, arrived = anyio.Event(), anyio.Event()

        async def call(tenant_id: TenantId) -> None:
            async with tools.running(tenant_id):
                running[tenant_id] = running.get(tenant_id, 0) + 1
                most[tenant_id] = max(most.get(tenant_id, 0), running[tenant_id])
                if sum(running.values()) == 7:
                    arrived.set()
                await free.wait()
                running[tenant_id] -= 1

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for tenant_id in (ACME, RIVAL):
                    for _ in range(5):
                        tasks.start_soon(call, tenant_id)
                await arrived.wait()
                await anyio.wait_all_tasks_blocked()
                assert running == {ACME: 2, RIVAL: 5}
                free.set()
        assert (most, running) == ({ACME: 2, RIVAL: 5}, {ACME: 0, RIVAL: 0})


async def test_a_waiting_call_that_is_cancelled_lets_the_next_one_in() -> None:
    async with opened(Quota(metric="running_tools", hard=1)) as (quotas, _, _):
        tools, done = ToolMetering(quotas), list[str]()

        async def call(name: str, scope: anyio.CancelScope) -> None:
            with scope:
                async with tools.running(ACME):
                    done.append(name)

        given_up, patient = anyio.CancelScope(), anyio.CancelScope()
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                async with tools.running(ACME):
                    tasks.start_soon(call, "given up", given_up)
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(call, "patient", patient)
                    await anyio.wait_all_tasks_blocked()
                    given_up.cancel()
        assert done == ["patient"]


async def test_a_quota_of_none_lets_none_run() -> None:
    async with opened(Quota(metric="running_tools", hard=0)) as (quotas, _, _):
        tools = ToolMetering(quotas)
        with pytest.raises(QuotaExceeded):
            async with tools.running(ACME):
                pass
