import json

from agentvm.gateways.agui.errors import shape
from agentvm.gateways.routes import GatewayProblem


def test_a_failure_has_the_shape_of_the_dialect() -> None:
    shaped = shape(GatewayProblem(status=404, code="not_found", message="There is none", request_id="req_1"))
    assert shaped.status == 404
    content = json.loads(shaped.content)
    assert content == {"type": "RUN_ERROR", "message": "There is none", "code": "not_found"}
