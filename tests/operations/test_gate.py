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
