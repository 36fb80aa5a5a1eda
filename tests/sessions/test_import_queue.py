import contextlib

import anyio
import pytest

from agentvm.errors import Conflict
from agentvm.errors.bounds import ServerBusy
from agentvm.events.base import Event, EventScope
from agentvm.events.lifecycle import ContainerDeleted
from agentvm.model.ids import ContainerId, TenantId
from agentvm.sessions import import_queue
from agentvm.sessions.import_queue import ImportQueue
from agentvm.sharing.byte_budget import ByteBudget

ACME, BOLT, CORE = TenantId("acme"), TenantId("bolt"), TenantId("core")
WAIT = 60.0


class Running:
    """Imports that take as long as the test likes."""

    def __init__(self, queue: ImportQueue) -> None:
        self._queue = queue
        self.begun: list[str] = []
        self._ends: dict[str, anyio.Event] = {}

    async def run(self, tenant_id: TenantId, name: str) -> None:
        self._ends[name] = anyio.Event()
        async with self._queue.turn(tenant_id):
            self.begun.append(name)
            await self._ends[name].wait()

    def end(self, name: str) -> None:
        self._ends[name].set()


async def test_one_of_a_tenant_runs_at_a_time_and_others_do_not_wait_behind_its_next() -> None:
    running = Running(ImportQueue(at_once=2))
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            for tenant_id, name in ((ACME, "a1"), (ACME, "a2"), (ACME, "a3"), (BOLT, "b1"), (CORE, "c1")):
                tasks.start_soon(running.run, tenant_id, name)
                await anyio.wait_all_tasks_blocked()
            assert running.begun == ["a1", "b1"]
            running.end("b1")
            await anyio.wait_all_tasks_blocked()
            assert running.begun == ["a1", "b1", "c1"]
            running.end("a1")
            await anyio.wait_all_tasks_blocked()
            assert running.begun == ["a1", "b1", "c1", "a2"]
            for name in ("a2", "a3", "c1"):
                running.end(name)
        assert running.begun[-1] == "a3"


async def test_a_line_that_is_too_long_is_refused_also_before_a_file_is_received(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_queue, "QUEUED_MAX", 3)
    monkeypatch.setattr(import_queue, "TENANT_QUEUED_MAX", 2)
    queue = ImportQueue(at_once=1)
    running = Running(queue)
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            for name in ("a1", "a2"):
                tasks.start_soon(running.run, ACME, name)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ServerBusy):
                await running.run(ACME, "a3")
            with pytest.raises(ServerBusy), queue.receiving(ACME):
                pass
            tasks.start_soon(running.run, BOLT, "b1")
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(ServerBusy):
                await running.run(CORE, "c1")
            for name in ("a1", "a2", "b1"):
                running.end(name)
        async with queue.turn(CORE):
            pass


async def test_whoever_waits_too_long_is_refused_and_leaves_the_line() -> None:
    queue = ImportQueue(at_once=1, queue_seconds=0.01)

    async def wait_in_vain(tenant_id: TenantId) -> None:
        with pytest.raises(ServerBusy):
            async with queue.turn(tenant_id):
                raise AssertionError("it was not its turn")

    with anyio.fail_after(WAIT):
        async with queue.turn(ACME), anyio.create_task_group() as tasks:
            for tenant_id in (ACME, BOLT):
                tasks.start_soon(wait_in_vain, tenant_id)
        is_mine = False
        while not is_mine:
            # Ten milliseconds may pass on a busy machine even where nobody is in the way.
            with contextlib.suppress(ServerBusy):
                async with queue.turn(BOLT):
                    is_mine = True


async def test_bytes_of_uploads_have_a_share_and_are_free_again() -> None:
    queue = ImportQueue(uploads=ByteBudget(100, 60))
    with queue.receiving(ACME) as grow:
        grow(50)
        grow(20)
        grow(60)
        with pytest.raises(ServerBusy):
            grow(61)
        with queue.receiving(BOLT) as other, pytest.raises(ServerBusy):
            other(29)
    with queue.receiving(ACME) as grow:
        grow(60)


async def test_a_container_that_was_deleted_while_a_file_arrived_is_not_filled() -> None:
    queue = ImportQueue()
    home, other = ContainerId("home"), ContainerId("other")

    def delete(tenant_id: TenantId, container_id: ContainerId) -> None:
        deleted = ContainerDeleted(container_id=container_id, deleted_at=1)
        queue.react(Event(data=deleted, scope=EventScope(container_id=container_id), timestamp=1, tenant_id=tenant_id))

    tenant, rival = TenantId("t"), TenantId("rival")
    delete(tenant, home)
    with queue.receiving(tenant):
        queue.refuse_deleted(tenant, [home, other])
        delete(rival, other)
        delete(tenant, home)
        queue.refuse_deleted(tenant, [other])
        with pytest.raises(Conflict):
            queue.refuse_deleted(tenant, [other, home])
    with queue.receiving(tenant):
        queue.refuse_deleted(tenant, [home])
