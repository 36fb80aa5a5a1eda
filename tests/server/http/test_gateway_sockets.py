import anyio
import pytest
from tests.gateways.langgraph.fixtures import converse
from tests.gateways.langgraph.test_thread_socket import SUBSCRIBED, ask
from tests.server.test_authentication import ACME, bearer, open_site
from tests.support.serving import serving
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from agentvm.model.ids import KeyId
from agentvm.server.http import stream

START = {"id": 1, "method": "run.start", "params": {"assistant_id": "default", "input": {"messages": "hi"}}}


async def test_a_socket_has_a_credential_and_a_thread_of_others_is_none() -> None:
    async with open_site() as site:
        url = f"{site.server.ws_url.removesuffix('/ws')}/langgraph/threads/mine/stream/events"
        with pytest.raises(InvalidStatus) as refused:
            await connect(url)
        assert refused.value.response.status_code == 401
        keys = [(await site.key(user_id=await site.user(name)))[1] for name in ("ann", "ben")]
        async with connect(url, additional_headers={"x-api-key": keys[0]}) as ann:
            assert (await ask(ann, START))["type"] == "success"
            async with connect(url, additional_headers=bearer(keys[1])) as ben:
                assert (await ask(ben, SUBSCRIBED))["message"] == "Thread not found: mine"


async def test_no_socket_is_open_where_there_is_none() -> None:
    async with serving(converse) as served:
        for path in ("/langgraph/threads/mine/stream", "/langgraph/threads//stream/events", "/openai/v1/chat"):
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{served.url.removesuffix('/ws')}{path}")
            assert refused.value.response.status_code == 404


async def test_a_socket_ends_when_its_key_is_revoked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.01)
    async with open_site() as site:
        url = f"{site.server.ws_url.removesuffix('/ws')}/langgraph/threads/mine/stream/events"
        key_id, key = await site.key(user_id=await site.user("ann"))
        async with connect(url, additional_headers=bearer(key)) as socket:
            await ask(socket, START)
            await ask(socket, SUBSCRIBED)
            await site.vm.tenancy.access.revoke(ACME, KeyId(key_id))
            with anyio.fail_after(60):
                await socket.wait_closed()
        assert site.vm.count_connected(ACME) == 0


async def test_a_revoked_key_commands_nothing_over_a_socket_that_is_open() -> None:
    async with open_site() as site:
        url = f"{site.server.ws_url.removesuffix('/ws')}/langgraph/threads/mine/stream/events"
        key_id, key = await site.key(user_id=await site.user("ann"))
        async with connect(url, additional_headers=bearer(key)) as socket:
            assert (await ask(socket, START))["type"] == "success"
            await site.vm.tenancy.access.revoke(ACME, KeyId(key_id))
            refused = await ask(socket, START)
            assert (refused["type"], refused["error"]) == ("error", "unauthenticated")
