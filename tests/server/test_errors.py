import pytest
from tests.server.fixtures import http

from agentvm.errors import (
    BY_CODE,
    AgentVMError,
    Conflict,
    ConstraintFailed,
    ImageNotFound,
    InboxFull,
    InvalidInput,
    NotAvailable,
    PreconditionFailed,
    StoreFailed,
    Unprocessable,
    from_code,
)
from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse
from agentvm.server.http.api import ManagementApi
from agentvm.server.router import HttpRoute


def failing(error: Exception) -> ManagementApi:
    async def fail(_: HttpRequest) -> HttpResponse:
        raise error

    return ManagementApi([HttpRoute("GET", "/fail", fail, is_gated=True)], lambda _: None)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (InvalidInput("what?"), 400, "invalid_input"),
        (ImageNotFound("x"), 404, "image_not_found"),
        (Conflict("already there"), 409, "conflict"),
        (InboxFull("later"), 503, "inbox_full"),
        (Unprocessable("a circle"), 422, "unprocessable"),
        (PreconditionFailed("it has changed"), 412, "precondition_failed"),
        (NotAvailable("no such part"), 501, "not_available"),
        (StoreFailed("full"), 503, "store_failed"),
        (ConstraintFailed("twice"), 500, "constraint_failed"),
        (HttpError(401), 401, "unauthorized"),
        (HttpError(413), 413, None),
        (ZeroDivisionError("secret"), 500, "internal_error"),
    ],
)
async def test_an_error_has_its_status_and_its_code(error: Exception, status: int, code: str | None) -> None:
    got, _, body = await http(failing(error), "GET", "/fail")
    assert got == status
    assert code in (None, body["error"]["code"])
    assert body["error"]["details"] == {}
    assert "secret" not in str(body)


async def test_an_error_may_have_details() -> None:
    _, _, body = await http(failing(Conflict("in use", details={"referrers": ["a"]})), "GET", "/fail")
    assert (body["error"]["message"], body["error"]["details"]) == ("in use", {"referrers": ["a"]})


@pytest.mark.parametrize("kind", BY_CODE.values())
async def test_every_error_of_ours_can_be_explained(kind: type[AgentVMError]) -> None:
    status, _, body = await http(failing(from_code(kind.code, "what happened")), "GET", "/fail")
    assert 400 <= status < 600
    assert (body["error"]["code"], body["error"]["message"]) == (kind.code, "what happened")


async def test_every_answer_has_a_request_id_of_its_own() -> None:
    app = failing(InvalidInput("what?"))
    ids = [(await http(app, "GET", "/fail"))[2]["error"]["requestId"] for _ in range(2)]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("host", ["x:y:z", "", "[", "a b", "http://x", "x" * 10_000])
@pytest.mark.parametrize("error", [InvalidInput("what?"), HttpError(404), ZeroDivisionError("a bug")])
async def test_a_host_that_is_none_does_not_change_the_shape_of_the_answer(host: str, error: Exception) -> None:
    usual = await http(failing(error), "GET", "/fail")
    status, headers, body = await http(failing(error), "GET", "/fail", host=host)
    # Some are refused before the request reaches anybody.
    assert status in (usual[0], 400)
    assert headers["content-type"] == "application/json"
    assert set(body["error"]) == {"code", "message", "details", "requestId"}
    if status == usual[0]:
        assert body["error"]["message"] in (usual[2]["error"]["message"], "Bad Request: GET /fail")


async def test_a_long_path_is_shortened() -> None:
    status, _, body = await http(failing(InvalidInput("what?")), "GET", "/" + "x" * 60_000)
    assert status == 404
    assert body["error"]["message"].startswith("Not Found: GET /xxx")
    assert len(body["error"]["message"]) < 300


async def test_an_http_errors_own_headers_are_sent() -> None:
    _, headers, _ = await http(failing(HttpError(503, {"Retry-After": "3"})), "GET", "/fail")
    assert headers["retry-after"] == "3"


@pytest.mark.parametrize(
    ("error", "told"), [(StoreFailed("the disk is full"), 1), (Conflict("already there"), 0), (InboxFull("later"), 0)]
)
async def test_what_only_the_operator_can_mend_is_logged(error: Exception, told: int, caplog: pytest.LogCaptureFixture) -> None:
    await http(failing(error), "GET", "/fail")
    entries = [record for record in caplog.records if record.getMessage() == "request_failed"]
    assert [(record.levelname, record.__dict__["code"]) for record in entries] == [("ERROR", "store_failed")] * told
