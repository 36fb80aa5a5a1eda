import pytest
from tests.commands.fixtures import open_desk

from agentvm.commands.call import call_of

pytestmark = pytest.mark.anyio


async def test_a_call_is_its_peers_context() -> None:
    async with open_desk() as desk:
        call = call_of(desk.peer, "req_1")
        assert (call.peer, call.principal, call.store) == (desk.peer, desk.peer.principal, desk.peer.store)
        assert (call.tenant_id, call.request_id) == (desk.peer.tenant_id, "req_1")
