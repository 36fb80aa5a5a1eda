import httpx2
from tests.support.serving import serving

from agentvm import ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.model.settings import OidcConfig


async def test_a_client_without_a_credential_learns_where_tokens_come_from() -> None:
    oidc = OidcConfig(issuer="https://login.example", audience="agentvm", jwks_url="https://login.example/keys")
    system = SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0, auth="on", oidc=oidc)
    async with start_server(ServerConfig(system=system)) as server, httpx2.AsyncClient(base_url=server.url) as http:
        refused = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert refused.status_code == 401
        challenge = refused.headers["www-authenticate"]
        address = f"{server.url}/.well-known/oauth-protected-resource/mcp"
        assert challenge == f'Bearer resource_metadata="{address}"'
        told = (await http.get(address)).json()
        assert told["resource"] == f"{server.url}/mcp"
        assert told["authorization_servers"] == ["https://login.example"]
        one = (await http.get("/.well-known/oauth-protected-resource/mcp/default")).json()
        assert one["resource"] == f"{server.url}/mcp/default"
        assert (await http.get("/openai/v1/models")).headers["www-authenticate"] == "Bearer"


async def test_without_an_issuer_there_are_keys_alone() -> None:
    async with serving() as served, httpx2.AsyncClient(base_url=served.http) as http:
        told = (await http.get("/.well-known/oauth-protected-resource")).json()
        assert told == {"resource": f"{served.http}/mcp", "resource_name": "AgentVM", "bearer_methods_supported": ["header"]}
