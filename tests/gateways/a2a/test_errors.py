import json

import pytest

from agentvm.gateways.a2a.errors import shape
from agentvm.gateways.routes import GatewayProblem


@pytest.mark.parametrize(("status", "code"), [(404, -32600), (413, -32600), (401, -32603), (503, -32603)])
def test_a_failure_of_the_whole_request_is_a_status_with_an_error_of_json_rpc(status: int, code: int) -> None:
    shaped = shape(GatewayProblem(status=status, code="some_code", message="Text", request_id="r"))
    error = json.loads(shaped.content)["error"]
    assert (shaped.status, error["code"], error["data"][0]["reason"]) == (status, code, "SOME_CODE")
