import anyio
import pytest
from tests.support.web import Asked, Replied, web

from agentvm.errors import ToolFailed
from agentvm.model.secret import Secret
from agentvm.model.tier_settings import RemoteSettings
from agentvm.tools.remote_server import open_remote_server


async def test_the_key_goes_along_and_the_reply_comes_back_whatever_its_status() -> None:
    async with web(lambda asked: Replied(status=422, body=b"{}")) as page:
        async with open_remote_server(RemoteSettings(url=page.url("/base/"), key=Secret("k"))) as ask:
            assert await ask("POST", "/v1/sandboxes/run", b'{"a":1}', 10.0) == (422, b"{}")
    (request,) = page.asked
    assert (request.method, request.target, request.body) == ("POST", "/base/v1/sandboxes/run", b'{"a":1}')
    assert request.headers["authorization"] == "Bearer k"


async def test_a_redirect_to_another_host_never_gets_the_key() -> None:
    async with web(lambda asked: Replied()) as other:
        away = Replied(status=307, headers={"Location": other.url("/", "localhost")})
        async with web(lambda asked: away) as page:
            async with open_remote_server(RemoteSettings(url=page.url(), key=Secret("k"))) as ask:
                with pytest.raises(ToolFailed):
                    await ask("GET", "/v1/auth/whoami", b"", 10.0)
        assert other.asked == []


async def test_a_server_that_hangs_or_is_gone_is_a_failure() -> None:
    async def hang(asked: Asked) -> Replied:
        await anyio.sleep_forever()
        raise AssertionError

    async with web(hang) as page:
        async with open_remote_server(RemoteSettings(url=page.url())) as ask:
            with pytest.raises(ToolFailed):
                await ask("POST", "/v1/sandboxes/run", b"{}", 0.1)
    async with open_remote_server(RemoteSettings(url=page.url())) as ask:
        with pytest.raises(ToolFailed):
            await ask("POST", "/v1/sandboxes/run", b"{}", 10.0)
