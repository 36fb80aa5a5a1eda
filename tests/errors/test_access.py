from agentvm.errors.access import AuthenticationOff
from agentvm.server.errors import status_of


def test_a_server_that_asks_nobody_forbids() -> None:
    assert status_of(AuthenticationOff) == 403
