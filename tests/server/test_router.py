import pytest

from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse
from agentvm.server.router import HttpRoute, Router


async def answer(_: HttpRequest) -> HttpResponse:
    return HttpResponse()


def router(*names: str) -> Router:
    pairs = [name.split(" ") for name in names]
    return Router(HttpRoute(method, path, answer) for method, path in pairs)


def test_a_word_wins_over_a_name() -> None:
    table = router("GET /v1/sessions/{session_id}", "GET /v1/sessions/search", "GET /v1/sessions/{session_id}/messages")
    assert table.match("/v1/sessions/search").template == "/v1/sessions/search"
    assert table.match("/v1/sessions/s1").params == {"session_id": "s1"}
    # A session of that name has messages all the same.
    assert table.match("/v1/sessions/search/messages").params == {"session_id": "search"}


def test_a_slash_at_the_end_means_nothing() -> None:
    assert router("GET /v1/users").match("/v1/users/").template == "/v1/users"


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/users/a/b", "/v2/users"])
def test_another_path_is_not_found(path: str) -> None:
    with pytest.raises(HttpError) as error:
        router("GET /v1/users", "GET /v1/users/{user_id}").match(path)
    assert error.value.status == 404


def test_another_method_is_refused_with_those_that_there_are() -> None:
    match = router("GET /v1/users", "POST /v1/users").match("/v1/users")
    assert match.route("POST").method == "POST"
    with pytest.raises(HttpError) as error:
        match.route("PUT")
    assert (error.value.status, error.value.headers) == (405, {"Allow": "GET, OPTIONS, POST"})


@pytest.mark.parametrize("names", [("GET /a", "GET /a"), ("GET /a/{x}", "POST /a/{y}")])
def test_routes_that_contradict_each_other_are_refused_at_the_start(names: tuple[str, ...]) -> None:
    with pytest.raises(RuntimeError):
        router(*names)
