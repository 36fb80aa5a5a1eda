"""AG-UI errors — before the stream begins, the event that would end it, as the body of a status."""

import msgspec

from agentvm.gateways.routes import GatewayProblem, ShapedProblem


def shape(problem: GatewayProblem) -> ShapedProblem:
    content = {"type": "RUN_ERROR", "message": problem.message, "code": problem.code}
    return ShapedProblem(status=problem.status, content=msgspec.json.encode(content))
