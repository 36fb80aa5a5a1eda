import anyio
import pytest
from tests.server.fixtures import http, open_listener, open_socket

from agentvm.protocol.codec import Frame
from agentvm.runtime.channel import LARGE_CHARACTERS, MAX_BYTES, RESERVE_FACTOR
from agentvm.server import writer
from agentvm.server.asgi import SOCKET_PATHS
from agentvm.version import VERSION


async def test_health_says_ok_and_the_version() -> None:
    async with open_listener() as (_, listener):
        status, headers, body = await http(listener.app, "GET", "/health")
        assert (status, body) == (200, {"status": "ok", "version": VERSION})
        assert headers["content-type"] == "application/json"
        assert headers["x-agentvm-auth"] == "off"


async def test_a_server_is_ready_until_it_drains_and_stays_healthy() -> None:
    async with open_listener() as (vm, listener):
        assert (await http(listener.app, "GET", "/ready"))[::2] == (200, {"status": "ready"})
        await vm.runtime.drain(0)
        assert (await http(listener.app, "GET", "/ready"))[::2] == (503, {"status": "shutting down"})
        assert (await http(listener.app, "GET", "/health"))[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nope", 404, "not_found"),
        ("GET", "/ws", 426, "upgrade_required"),
        ("POST", "/", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("GET", "/health/../../etc/passwd", 404, "not_found"),
    ],
)
async def test_every_failure_has_one_shape(method: str, path: str, status: int, code: str) -> None:
    async with open_listener() as (_, listener):
        got, headers, body = await http(listener.app, method, path)
        assert got == status
        assert headers["content-type"] == "application/json"
        assert set(body) == {"error"}
        assert set(body["error"]) == {"code", "message", "details", "requestId"}
        assert body["error"]["code"] == code


async def test_a_probe_may_ask_for_the_status_alone() -> None:
    async with open_listener() as (vm, listener):
        for path in ("/health", "/ready"):
            status, _, body = await http(listener.app, "HEAD", path)
            assert (status, body) == (200, None)
        await vm.runtime.drain(0)
        status, _, body = await http(listener.app, "HEAD", "/ready")
        assert (status, body) == (503, None)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/health", "GET, HEAD, OPTIONS"),
        ("/v1/quotas", "DELETE, GET, OPTIONS, PUT"),
        ("/v1/users/x", "DELETE, GET, OPTIONS, PUT"),
        ("/v1/auth/whoami", "GET, OPTIONS"),
    ],
)
async def test_who_asks_is_told_every_method_of_a_path(path: str, methods: str) -> None:
    async with open_listener() as (_, listener):
        status, headers, _ = await http(listener.app, "OPTIONS", path)
        assert (status, headers["allow"]) == (204, methods)


async def test_a_socket_asked_for_by_plain_http_is_told_to_upgrade() -> None:
    async with open_listener() as (_, listener):
        status, headers, body = await http(listener.app, "GET", "/ws")
        assert (status, headers["upgrade"]) == (426, "websocket")
        assert body["error"]["code"] == "upgrade_required"


@pytest.mark.parametrize("path", ["/health", "/ready", "/nope"])
async def test_a_host_that_is_none_is_answered_like_any(path: str) -> None:
    async with open_listener() as (_, listener):
        usual = await http(listener.app, "GET", path)
        assert (await http(listener.app, "GET", path, host="x:y:z"))[0] == usual[0]


@pytest.mark.parametrize("path", SOCKET_PATHS)
async def test_sockets_are_accepted_where_they_belong(path: str) -> None:
    async with open_listener() as (_, listener), open_socket(listener.app, path) as socket:
        assert (await socket.from_server.receive())["type"] == "websocket.accept"
        await socket.leave()


@pytest.mark.parametrize("path", ["/nope", "/ws/x", "/ws/../", "/" + "x" * 10_000])
async def test_a_socket_elsewhere_is_refused_as_not_found(path: str) -> None:
    async with open_listener() as (vm, listener), open_socket(listener.app, path) as socket:
        with anyio.fail_after(60):
            start = await socket.from_server.receive()
            body = await socket.from_server.receive()
        assert (start["type"], start["status"]) == ("websocket.http.response.start", 404)
        assert b"connect to /ws" in body["body"]
        assert len(body["body"]) < 400
        assert vm.runtime.broadcaster.channels == ()


async def test_servers_of_one_process_answer_each_for_itself() -> None:
    async with open_listener() as (one, first), open_listener() as (_, second):
        await one.runtime.drain(0)
        assert [(await http(listener.app, "GET", "/ready"))[0] for listener in (first, second, first)] == [503, 200, 503]


async def test_another_asgi_server_can_run_it_too() -> None:
    async with open_listener() as (vm, listener), open_socket(listener.app, abortable=False) as socket:
        assert (await socket.ask("container_create", containerId="c1"))["containerId"] == "c1"
        await socket.leave()
    assert vm.runtime.broadcaster.channels == ()


async def test_a_peer_that_does_not_read_is_left_also_where_nothing_can_be_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LINGER_SECONDS", 0.01)
    async with open_listener() as (vm, listener):
        async with open_socket(listener.app, abortable=False) as socket:
            await socket.ask("container_create", containerId="c1")
            socket.stalled.set()
            for _ in range(2 * RESERVE_FACTOR * MAX_BYTES // LARGE_CHARACTERS + 2):
                next(iter(vm.runtime.broadcaster.channels)).send(Frame("x" * LARGE_CHARACTERS))
                await anyio.wait_all_tasks_blocked()
        assert not socket.aborted
        assert vm.runtime.broadcaster.channels == ()
