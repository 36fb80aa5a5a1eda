import pytest
from tests.operations.fixtures import open_desk

from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.tools.mcp.consent import TokenScope
from agentvm.tools.mcp.credentials import SealedCredentials

SCOPE = TokenScope.of(DEFAULT_TENANT, "", "https://mcp.example/mcp")
GRANT = b'{"tokens": {"access_token": "tell-nobody"}}'


async def test_tokens_are_sealed_for_one_server_of_one_user() -> None:
    async with open_desk() as desk:
        credentials = SealedCredentials(store=desk.vm.store, vault=desk.vm.tenancy.vault, clock=desk.vm.clock)
        assert await credentials.load(SCOPE) is None
        await credentials.save(SCOPE, GRANT)
        assert await credentials.load(SCOPE) == GRANT
        connections = credentials.connections(DEFAULT_TENANT)
        sealed = await connections.get("", SCOPE.server)
        assert sealed is not None
        assert b"tell-nobody" not in sealed
        await connections.put("", "https://evil.example/mcp", sealed, 1)
        with pytest.raises(StoreFailed):
            await credentials.load(TokenScope.of(DEFAULT_TENANT, "", "https://evil.example/mcp"))
        await credentials.forget(SCOPE)
        assert await credentials.load(SCOPE) is None
