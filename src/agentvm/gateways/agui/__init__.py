"""AG-UI — runs of the Agent-User Interaction protocol 1.0, as CopilotKit and `HttpAgent` ask for them."""

from agentvm.gateways.agui.errors import shape
from agentvm.gateways.agui.run_body import AgUiBody
from agentvm.gateways.agui.runs import run, stop
from agentvm.gateways.routes import Gateway, GatewayRoute

_NAMES = {"agent": "image_id"}

AGUI = Gateway(
    name="agui",
    prefixes=("/ag-ui",),
    routes=(
        GatewayRoute(method="POST", path="/{agent:path}", handler=run, body=AgUiBody, names=_NAMES),
        GatewayRoute(method="DELETE", path="/{agent:path}", handler=stop, names=_NAMES),
    ),
    shape=shape,
)
