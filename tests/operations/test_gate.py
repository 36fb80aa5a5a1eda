import anyio
import pytest
from tests.server.http.fixtures import open_world

from agentvm.errors import PermissionDenied
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.operations.context import Context
from agentvm.operations.gate import execute
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
        await execute(pin, context_of(EVERYTHING), request)
        with pytest.raises(PermissionDenied):
            await execute(pin, context_of(frozenset()), request)
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
            await execute(BY_NAME["session.pin"], context, SessionPin(session_id=session_id))  # type: ignore[arg-type]
            done.set()

        world.vm.runtime.recovered = anyio.Event()
        assert world.vm.hindrance == "reading the turns of the previous run"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pin)
            await anyio.wait_all_tasks_blocked()
            assert not done.is_set()
            world.vm.runtime.recovered.set()
            with anyio.fail_after(60):
                await done.wait()
        assert world.vm.hindrance is None


async def test_an_operator_who_reads_messages_of_a_tenant_is_in_its_audit_log_with_the_reason() -> None:
    async with open_world() as world:
        session_id = await world.say(world.acme, "hello")
        path = f"/v1/sessions/{session_id}/messages?tenant=acme"
        reason = "&reason=%E7%94%A8%E6%88%B7%E6%8A%95%E8%AF%89%2012"
        for _ in range(3):
            assert (await world.ask("GET", f"{path}{reason}")).status == 200
        entry = ("message.read", f"{session_id}: 用户投诉 12", "ok")
        # Pages of the same content are one entry.
        assert await world.audit(world.acme.tenant_id) == [entry]
        world.clock.now += 60_000
        assert (await world.ask("GET", path)).status == 200
        assert await world.audit(world.acme.tenant_id) == [("message.read", session_id, "ok"), entry]
        assert (await world.ask("GET", f"/v1/sessions/search?q=hello&tenant=acme{reason}")).status == 200
        assert (await world.audit(world.acme.tenant_id))[0][1] == "session.search: 用户投诉 12"
        assert (await world.ask("GET", f"{path}&reason={'x' * 151}")).code == "invalid_input"
        # Without another tenant there is nothing to account for.
        assert (await world.ask("GET", f"/v1/sessions/{session_id}/messages", key=world.acme.admin)).status == 200
        assert (await world.ask("GET", "/v1/sessions")).status == 200
        assert len(await world.audit(world.acme.tenant_id)) == 4
        assert await world.audit() == []
