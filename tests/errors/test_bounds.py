from agentvm.errors.bounds import HistoryTooLarge, InputTooLarge, QueryTimeout, ServerBusy
from agentvm.server.errors import status_of


def test_each_has_the_status_that_programs_expect() -> None:
    assert [status_of(error) for error in (InputTooLarge, ServerBusy, QueryTimeout, HistoryTooLarge)] == [413, 503, 503, 503]
