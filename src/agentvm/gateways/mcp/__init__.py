"""MCP — a server of the Model Context Protocol: agents as tools, conversations and resources to read, prompts to render."""

from agentvm.gateways.mcp.errors import shape
from agentvm.gateways.mcp.messages import McpMessage
from agentvm.gateways.mcp.methods import answer
from agentvm.gateways.routes import Gateway, GatewayRoute

MCP = Gateway(
    name="mcp",
    prefixes=("/mcp",),
    routes=(
        GatewayRoute(method="POST", path="", handler=answer, body=McpMessage),
        GatewayRoute(method="POST", path="/{agent:path}", handler=answer, body=McpMessage, names={"agent": "image_id"}),
    ),
    shape=shape,
    tells_issuer=True,
)
