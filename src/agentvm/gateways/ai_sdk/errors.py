"""AI SDK errors — before the stream begins, JSON that clients show as the message of their error."""

import msgspec

from agentvm.gateways.routes import GatewayProblem, ShapedProblem


def shape(problem: GatewayProblem) -> ShapedProblem:
    about = {"code": problem.code, "message": problem.message, "requestId": problem.request_id}
    return ShapedProblem(status=problem.status, content=msgspec.json.encode({"error": about}))
