from agentvm.operations.table import BY_NAME
from agentvm.server.http.adapter import route_of
from agentvm.server.http.openapi import statuses_of


def test_a_route_is_derived_from_its_operation() -> None:
    route = route_of(BY_NAME["session.fork"])
    assert route.name == "POST /v1/sessions/{session_id:str}/fork"
    assert (route.needs, route.action) == (("agent:use",), "session.fork")
    assert statuses_of(route) == (201,)
    assert route.takes.__struct_fields__ == ("message_id", "image_id", "title")


def test_an_operation_that_returns_nothing_has_no_content() -> None:
    assert statuses_of(route_of(BY_NAME["draft.delete"])) == (204,)
