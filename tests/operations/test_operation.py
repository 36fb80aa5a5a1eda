import pytest

from agentvm.operations.operation import Empty, Http, OperationGroup
from agentvm.protocol.requests import Reply, Request


class Question(Request[Reply]):
    text: str


def test_a_row_is_made_of_the_function_it_stands_on() -> None:
    operation = OperationGroup("questions")

    @operation("question.ask", needs="agent:use", command=True)
    async def ask(context: object, request: Question) -> Reply:
        """Ask something.

        The answer comes
        later.
        """
        return Reply()

    (row,) = operation.rows
    assert (row.name, row.command, row.group, row.needs) == ("question.ask", "question_ask", "questions", ("agent:use",))
    assert (row.request, row.reply, row.function) == (Question, Reply, ask)
    assert (row.summary, row.description) == ("Ask something.", "The answer comes later.")


def test_an_operation_that_nobody_can_reach_is_a_mistake() -> None:
    operation = OperationGroup("questions")
    with pytest.raises(RuntimeError, match=r"question\.ask is reached by no face"):

        @operation("question.ask", needs=())
        async def ask(context: object, request: Empty) -> None: ...


def test_an_operation_without_a_command_is_reached_over_http_alone() -> None:
    operation = OperationGroup("questions")

    @operation("question.list", needs=(), http=Http("GET", "/v1/questions"))
    async def list_all(context: object, request: Empty) -> None: ...

    assert operation.rows[0].command is None


def test_an_operation_may_have_a_second_route_that_takes_everything_in_the_body() -> None:
    operation = OperationGroup("questions")

    @operation("question.get", needs="a", audit="b", http=Http("GET", "/v1/questions/{text}", called="NamedQuestion"))
    async def get(context: object, request: Question) -> Reply:
        return Reply()

    first, second = operation.rows
    assert (first.name, second.name, second.needs, second.audit) == ("question.get", "question.call_get", ("a",), "b")
    assert second.http is not None
    assert (second.http.method, second.http.path, second.http.id) == ("POST", "/v1/questions/get", "questions_get_called")
    assert second.http.names == ("NamedQuestion", None)
