import msgspec
import pytest

from agentvm.gateways.anthropic.errors import shape
from agentvm.gateways.routes import GatewayProblem


@pytest.mark.parametrize(
    ("status", "sent", "kind"),
    [
        (400, 400, "invalid_request_error"),
        (401, 401, "authentication_error"),
        (402, 402, "billing_error"),
        (405, 405, "invalid_request_error"),
        (413, 413, "request_too_large"),
        (429, 429, "rate_limit_error"),
        (502, 502, "api_error"),
        (503, 529, "overloaded_error"),
    ],
)
def test_a_failure_has_the_shape_of_anthropic(status: int, sent: int, kind: str) -> None:
    shaped = shape(GatewayProblem(status=status, code="some_code", message="why", request_id="req_1"))
    assert shaped.status == sent
    error = {"type": kind, "message": "why", "code": "some_code"}
    assert msgspec.json.decode(shaped.content) == {"type": "error", "error": error, "request_id": "req_1"}
