import json
from typing import Any

import pytest

from agentvm.gateways.openai.errors import shape
from agentvm.gateways.routes import GatewayProblem


@pytest.mark.parametrize(
    ("status", "code", "shaped"),
    [
        (400, "invalid_input", (400, "invalid_request_error", None, "invalid_input")),
        (401, "unauthenticated", (401, "authentication_error", None, "invalid_api_key")),
        (402, "wallet_empty", (402, "insufficient_quota", None, "insufficient_quota")),
        (403, "permission_denied", (403, "permission_error", None, "permission_denied")),
        (404, "definition_not_found", (404, "invalid_request_error", "model", "model_not_found")),
        (404, "not_found", (404, "invalid_request_error", None, "not_found")),
        (409, "agent_busy", (429, "rate_limit_error", None, "agent_busy")),
        (409, "conflict", (400, "invalid_request_error", None, "conflict")),
        (429, "quota_exceeded", (429, "rate_limit_error", None, "quota_exceeded")),
        (503, "shutting_down", (503, "server_error", None, "shutting_down")),
    ],
)
def test_every_failure_has_the_shape_of_the_dialect(status: int, code: str, shaped: tuple[Any, ...]) -> None:
    problem = shape(GatewayProblem(status=status, code=code, message="text", request_id="r"))
    error = json.loads(problem.content)["error"]
    assert (problem.status, error["type"], error["param"], error["code"]) == shaped
    assert error["message"] == ("text; GET /v1/models lists the models" if error["param"] == "model" else "text")
