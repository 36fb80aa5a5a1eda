"""LangGraph errors — `{"detail": text}`, and the requests that this server does not support."""

from typing import Final

import msgspec

from agentvm.errors import NotAvailable
from agentvm.gateways.routes import Ask, GatewayProblem, GatewayReply, GatewayRoute, NoBody, ShapedProblem
from agentvm.gateways.talk import Talk

_BUSY: Final = frozenset({"agent_busy", "inbox_full"})


def shape(problem: GatewayProblem) -> ShapedProblem:
    """Returns the response of a failure. A thread that is busy is a conflict, input that is wrong is unprocessable.

    Clients of runs read `detail`, clients of the event protocol `message`.
    """
    status = 409 if problem.code in _BUSY else 422 if problem.status == 400 else problem.status
    content = {"detail": problem.message, "error": problem.code, "message": problem.message}
    return ShapedProblem(status=status, content=msgspec.json.encode(content))


async def refuse(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Refuses a request that LangGraph's server supports and this one does not."""
    talk.principal.require("agent:use")
    raise NotAvailable("This server has no crons, no batches, no assistants of clients, and deletes no single runs")


_REFUSED = (
    *(("POST", "/runs/crons"), ("POST", "/runs/crons/search"), ("POST", "/runs/crons/count")),
    *(("PATCH", "/runs/crons/{cron}"), ("DELETE", "/runs/crons/{cron}"), ("POST", "/threads/{thread}/runs/crons")),
    *(("POST", "/assistants"), ("PATCH", "/assistants/{assistant}"), ("DELETE", "/assistants/{assistant}")),
    *(("POST", "/assistants/{assistant}/versions"), ("POST", "/assistants/{assistant}/latest")),
    *(("POST", "/runs/batch"), ("POST", "/threads/prune"), ("DELETE", "/threads/{thread}/runs/{run}")),
)
REFUSED_ROUTES = tuple(GatewayRoute(method=method, path=path, handler=refuse) for method, path in _REFUSED)
