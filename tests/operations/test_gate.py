import anyio
import pytest
from tests.server.http.fixtures import open_world

from agentvm.errors import PermissionDenied
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.operations.context import Context
from agentvm.operations.gate import carry_out
from agentvm.operations.session import SessionPin
from agentvm.operations.table import BY_NAME


async def test_the_outcome_of_a_write_is_audited_whichever_way_it_was_asked() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "hello")
        tenant_id = world.acme.tenant_id

        def context_of(permissions: frozenset[str]) -> Context:
            principal = Principal(tenant_id=tenant_id, permissions=permissions)
            return Context(vm=world.vm, workspace=world.vm.workspace(principal), target=session_id)

        pin, request = BY_NAME["session.pin"], SessionPin(session_id=session_id)  # type: ignore[arg-type]  # a plain text
        await carry_out(pin, context_of(EVERYTHING), request)
        with pytest.raises(PermissionDenied):
            await carry_out(pin, context_of(frozenset()), request)
        entries = await world.audit(tenant_id)
        assert ("session.change", session_id, "ok") in entries
        assert ("session.change", session_id, "refused:permission_denied") in entries


async def test_an_operation_waits_until_the_turns_of_the_previous_run_are_known() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "hello")
        principal = Principal(tenant_id=world.acme.tenant_id, permissions=EVERYTHING)
        context = Context(vm=world.vm, workspace=world.vm.workspace(principal), target=session_id)
        done = anyio.Event()

        async def pin() -> None:
            await carry_out(BY_NAME["session.pin"], context, SessionPin(session_id=session_id))  # type: ignore[arg-type]
            done.set()

        world.vm.runtime.recovered = anyio.Event()
        assert world.vm.hindrance == "reading the turns of the previous run"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pin)
            await anyio.wait_all_tasks_blocked()
            assert not done.is_set()
            world.vm.runtime.recovered.set()
            with anyio.fail_after(10):
                await done.wait()
        assert world.vm.hindrance is None
