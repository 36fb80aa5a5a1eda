"""MCP connections — the servers that users have allowed AgentVM to act for them on."""

from agentvm.errors import NotFound, not_found, shorten
from agentvm.model.base import Record
from agentvm.model.ids import UserId
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.protocol.requests import Request

operation = OperationGroup("mcp")

USE, ADMIN = "agent:use", "tenants:admin"
_ALL = "/v1/mcp/connections"


class ConnectionView(Record):
    """A server that a user is connected to, and since when."""

    server: str
    since: int


class ConnectionsView(Record):
    items: list[ConnectionView]


class McpConnections(Request[ConnectionsView]):
    """`user` is another user, by id or name, for administrators."""

    user: str | None = None


@operation("mcp.connections", needs=USE, http=Http("GET", _ALL, id="mcp_connections"), raises=(NotFound,))
async def connections(context: Context, request: McpConnections) -> ConnectionsView:
    """List the MCP servers on which AgentVM acts for you.

    No token is shown.
    """
    items = await context.accounts.connections.list(await _user(context, request.user))
    return ConnectionsView(items=[ConnectionView(server=server, since=since) for server, since in items])


class McpDisconnect(Request[None]):
    """`server` is the address of the server; `user` as in the list."""

    server: str
    user: str | None = None


@operation(
    "mcp.disconnect", needs=USE, audit="mcp.disconnect", http=Http("DELETE", _ALL, id="mcp_disconnect"), raises=(NotFound,)
)
async def disconnect(context: Context, request: McpDisconnect) -> None:
    """Disconnect from an MCP server.

    Its tokens are deleted, and revoked if the server supports that. The next call asks for consent again.
    """
    context.target = shorten(request.server)
    user_id = await _user(context, request.user)
    consents = context.vm.consents
    if consents is None or not await consents.disconnect(context.tenant_id, user_id, request.server):
        raise not_found("MCP connection", request.server)


async def _user(context: Context, name: str | None) -> str:
    """Returns the id of a user: of the principal, or of the one that an administrator names."""
    own = context.principal.user_id or ""
    if name is None or name == own:
        return own
    context.principal.require(ADMIN)
    users = context.accounts.users
    user = await users.get(UserId(name)) or await users.find(name)
    if user is None:
        raise not_found("User", name)
    return user.user_id
