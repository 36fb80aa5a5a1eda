"""Credentials of a remote runtime — they go with the upgrade, and when they are refused the client ends."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import anyio
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from agentvm.client import remote
from agentvm.client.agentx import create_agentx
from agentvm.client.remote import remote_runtime
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import AccessDenied, ConfigInvalid, Refused, Unauthenticated
from agentvm.model.secret import Secret
from agentvm.server.local import start_server

GUARDED = ServerConfig(system=SystemSettings(data_dir=MEMORY, port=0, auth="on"))


@asynccontextmanager
async def served_by(behaviour: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[str]:
    """The URL of a server that does with each connection what the test wants."""
    with anyio.fail_after(60):
        async with serve(behaviour, "127.0.0.1", 0) as server:
            yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_a_key_goes_with_the_upgrade_and_is_never_shown() -> None:
    async with start_server(GUARDED, drivers={"scripted": ScriptedDriver()}) as server:
        key = server.first_key
        assert key is not None
        source = remote_runtime(server.ws_url, key=key)
        assert key.reveal() not in repr(source)
        with anyio.fail_after(60):
            async with create_agentx(source) as agentx:
                assert await agentx.containers.list() == ()


async def test_a_wrong_key_is_said_to_be_wrong_at_once() -> None:
    async with start_server(GUARDED, drivers={"scripted": ScriptedDriver()}) as server:
        with anyio.fail_after(60), pytest.raises(Unauthenticated) as refused:
            async with create_agentx(remote_runtime(server.ws_url, key=Secret("avm_wrong"))):
                pass
        assert "avm_wrong" not in str(refused.value)


def test_a_key_and_an_authorization_header_exclude_each_other() -> None:
    with pytest.raises(ConfigInvalid):
        remote_runtime("ws://h", key=Secret("a"), headers={"authorization": "Bearer b"})


@pytest.mark.parametrize("text", ["two\nlines", "ключ"])
def test_a_key_that_no_header_holds_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        remote_runtime("ws://h", key=Secret(text))
    assert text not in str(refused.value)


@pytest.mark.parametrize("code", remote.ENDED)
async def test_a_socket_closed_for_its_credentials_ends_the_client_with_the_reason(code: int) -> None:
    connections = 0

    async def dismiss(socket: ServerConnection) -> None:
        nonlocal connections
        connections += 1
        await socket.recv()
        await socket.close(code, "no more")

    async with served_by(dismiss) as url:

        async def be_a_client() -> None:
            async with create_agentx(remote_runtime(url)) as agentx:
                with pytest.raises(Unauthenticated):
                    await agentx.containers.list()
                await anyio.sleep_forever()

        with pytest.raises(Unauthenticated) as ended:
            await be_a_client()
        assert str(ended.value) == remote.ENDED[code]
    assert connections == 1


async def test_an_error_of_the_body_is_not_doubled_by_that_of_the_link() -> None:
    async def dismiss(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.close(4401)

    async with served_by(dismiss) as url:
        with pytest.raises(Unauthenticated):
            async with create_agentx(remote_runtime(url)) as agentx:
                await agentx.containers.list()


async def test_a_stream_ends_when_the_credentials_do() -> None:
    async def dismiss(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.close(4403)

    heard: list[str] = []
    async with served_by(dismiss) as url:

        async def be_a_client() -> None:
            async with create_agentx(remote_runtime(url)) as agentx, agentx.runtime.channel.events() as events:
                with pytest.raises(Unauthenticated):
                    await agentx.containers.list()
                # What waits from another thread cannot be cancelled: it is told, and every call says why.
                with anyio.CancelScope(shield=True):
                    heard.extend([event.type async for event in events])
                    with pytest.raises(Unauthenticated):
                        await agentx.containers.list()

        with pytest.raises(Unauthenticated):
            await be_a_client()
    assert heard == ["disconnected"]


@pytest.mark.parametrize(("status", "kind"), [(401, Unauthenticated), (403, AccessDenied)])
async def test_a_client_that_is_not_let_in_again_does_not_try_for_ever(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: type[AccessDenied]
) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.01)
    attempts = 0

    def let_in_once(connection: ServerConnection, request: Request) -> Response | None:
        nonlocal attempts
        attempts += 1
        return None if attempts == 1 else connection.respond(HTTPStatus(status), "Not you\n")

    async def drop(socket: ServerConnection) -> None:
        await socket.close(1011)

    with anyio.fail_after(60):
        async with serve(drop, "127.0.0.1", 0, process_request=let_in_once) as server:
            url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(kind, match="Not you"):
                async with create_agentx(remote_runtime(url)):
                    await anyio.sleep_forever()
    assert attempts == 2


async def test_a_server_that_takes_no_more_connections_is_not_taken_for_none() -> None:
    def refuse(connection: ServerConnection, request: Request) -> Response:
        return connection.respond(429, "The quota connections does not allow it: 0 of 1 left\n")

    async def never(socket: ServerConnection) -> None:
        raise AssertionError("it was opened")

    async with serve(never, "127.0.0.1", 0, process_request=refuse) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(Refused, match="The quota connections"):
            async with create_agentx(remote_runtime(url)):
                pass
