from typing import Any

import pytest
from tests.server.fixtures import http

from agentvm.errors import AccessDenied
from agentvm.server.exchange import HttpRequest, HttpResponse
from agentvm.server.http.api import ManagementApi
from agentvm.server.router import HttpRoute


async def answer(request: HttpRequest) -> HttpResponse:
    return HttpResponse(content=b'{"name":"%b"}' % request.path_params["name"].encode())


ROUTE = HttpRoute("GET", "/v1/things/{name}", answer, is_gated=True)


def allow(_: HttpRequest) -> None: ...


def test_a_handler_that_is_not_behind_the_gate_keeps_the_server_from_starting() -> None:
    with pytest.raises(RuntimeError, match="GET /v1/forgotten is not behind the gate"):
        ManagementApi([HttpRoute("GET", "/v1/forgotten", answer)], allow)


async def test_a_request_is_answered_by_its_handler_and_has_an_id() -> None:
    status, headers, body = await http(ManagementApi([ROUTE], allow), "GET", "/v1/things/a")
    assert (status, body, headers["content-type"]) == (200, {"name": "a"}, "application/json")
    assert headers["x-request-id"].startswith("req_")


async def test_options_tell_the_methods() -> None:
    status, headers, _ = await http(ManagementApi([ROUTE], allow), "OPTIONS", "/v1/things/a")
    assert (status, headers["allow"]) == (204, "GET, OPTIONS")


async def test_a_request_may_be_refused_before_its_handler() -> None:
    def refuse(_: HttpRequest) -> None:
        raise AccessDenied("no")

    assert (await http(ManagementApi([ROUTE], refuse), "GET", "/v1/things/a"))[0] == 403


async def test_a_peer_that_leaves_before_its_request_is_complete_is_not_answered() -> None:
    async def read(request: HttpRequest) -> HttpResponse:
        async for _ in request.stream():
            pass
        return HttpResponse()

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        raise AssertionError("nobody is there")

    api = ManagementApi([HttpRoute("POST", "/v1/things", read, is_gated=True)], allow)
    await api({"type": "http", "method": "POST", "path": "/v1/things", "headers": []}, receive, send)
