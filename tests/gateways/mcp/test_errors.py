import json

import pytest

from agentvm.gateways.mcp.errors import code_of, shape
from agentvm.gateways.routes import GatewayProblem


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, -32600), (401, -32603), (403, -32603), (404, -32601), (405, -32601), (413, -32600), (429, -32603), (503, -32000)],
)
def test_a_request_that_fails_as_a_whole_is_an_error_without_an_id(status: int, code: int) -> None:
    problem = shape(GatewayProblem(status=status, code="c", message="text", request_id="r"))
    assert problem.status == status
    about = {"code": code, "message": "text", "data": {"code": "c"}}
    assert json.loads(problem.content) == {"jsonrpc": "2.0", "id": None, "error": about}


def test_faults_of_the_caller_are_invalid_parameters() -> None:
    assert {code_of(status) for status in (400, 404, 409, 413, 422)} == {-32602}
    assert {code_of(status) for status in (402, 403, 429, 500)} == {-32603}
