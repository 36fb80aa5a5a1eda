from agentvm.errors import AgentBusy, AgentVMError, NotFound, Unprocessable
from agentvm.operations.http_status import status_of


def test_a_status_is_that_of_the_nearest_class() -> None:
    assert [status_of(kind) for kind in (NotFound, AgentBusy, Unprocessable, AgentVMError)] == [404, 503, 422, 500]
    assert status_of(NotFound("x")) == 404
