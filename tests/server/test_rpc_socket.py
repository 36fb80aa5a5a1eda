import contextlib
import json

import pytest
from tests.compat.test_traps_2x import asked, authenticate
from tests.server.fixtures import open_listener, open_socket
from tests.server.test_authentication import open_site
from tests.support.rpc_client import RpcClient, open_rpc_client
from websockets.asyncio.client import connect

from agentvm.model.account import Quota
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import MEMBER
from agentvm.operations.context import Context
from agentvm.operations.rpc_methods import METHODS, Nothing, RpcMethod
from agentvm.server import websocket as socket_module
from agentvm.vm import REVOKED


async def test_two_clients_of_a_container_hear_the_same_turn() -> None:
    async with open_listener() as (_, listener), open_socket(listener.app) as one, open_socket(listener.app, "/") as two:
        first, second = RpcClient(one), RpcClient(two)
        await second.ask("image.list")
        image_id = (await first.ask("image.create"))["record"]["imageId"]
        await first.ask("message.send", imageId=image_id, content="Hi")
        await second.hear("turn_response")
        heard = [[event for event in client.events if event["context"].get("sessionId")] for client in (first, second)]
        assert heard[0] == heard[1]
        await one.leave()
        await two.leave()


async def test_a_client_hears_every_container_that_its_key_names() -> None:
    async with open_site() as site:
        keys = [(await site.key(permissions=MEMBER, containers=names))[1] for names in (["a", "b"], ["b"], ["c"])]
        async with contextlib.AsyncExitStack() as stack:
            both, speaker, stranger = [await stack.enter_async_context(connect(site.server.ws_url)) for _ in keys]
            for socket, key in zip((both, speaker, stranger), keys, strict=True):
                await authenticate(socket, key)
                await asked(socket, "image.list")
            record = (await asked(speaker, "image.create"))[0]["result"]["record"]
            assert (await asked(speaker, "message.send", imageId=record["imageId"], content="Hi"))[0]["result"]
            for socket, hears in ((both, True), (stranger, False)):
                _, events = await asked(socket, "image.list")
                contexts = [frame["params"]["event"]["context"] for frame in events]
                assert any(context.get("imageId") == record["imageId"] for context in contexts) is hears


async def test_a_peer_that_comes_back_silently_hears_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_module, "SILENCE_SECONDS", 0.0)
    async with open_listener() as (vm, listener), open_socket(listener.app) as one, open_socket(listener.app) as two:
        speaker, silent = RpcClient(one), RpcClient(two)
        image_id = (await speaker.ask("image.create"))["record"]["imageId"]
        await silent.hear("image_created")
        await speaker.ask("message.send", imageId=image_id, content="Hi")
        assert (await silent.hear("turn_response"))["context"]["imageId"] == image_id
        # Its first frame says that it is a client of 1.x after all.
        assert (await two.ask("container_list"))["containerIds"] == ["default"]
        assert len(vm.runtime.broadcaster.channels) == 2
        await one.leave()
        await two.leave()


async def test_a_batch_is_answered_request_by_request_and_noise_with_an_error() -> None:
    async with open_rpc_client() as (_, client):
        await client.socket.send(
            json.dumps(
                [
                    {"jsonrpc": "2.0", "id": 20, "method": "image.list", "params": {}},
                    {"jsonrpc": "2.0", "id": 21, "method": "nope"},
                    {"jsonrpc": "2.0", "method": "control.ack", "params": {"msgId": "x"}},
                ]
            )
        )
        assert (await client.answer(20))["result"]["records"] == []
        assert (await client.answer(21))["error"]["code"] == -32601
        await client.socket.send("no json")
        assert (await client.answer(None))["error"]["code"] == -32700


async def test_a_client_that_leaves_during_its_turn_leaves_nothing_behind() -> None:
    async with open_listener() as (vm, listener):
        async with open_socket(listener.app) as socket:
            client = RpcClient(socket)
            image_id = (await client.ask("image.create"))["record"]["imageId"]
            await client.send("message.send", imageId=image_id, content="Hi")
            await client.hear("user_message")
            await socket.leave()
        assert vm.runtime.broadcaster.channels == ()


async def test_a_silent_peer_whose_first_frame_is_noise_is_answered_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_module, "SILENCE_SECONDS", 0.0)
    async with open_listener() as (_, listener), open_socket(listener.app) as one, open_socket(listener.app) as two:
        speaker, silent = RpcClient(one), RpcClient(two)
        await speaker.ask("image.create")
        await silent.hear("image_created")
        await two.send("no json")
        assert (await two.read("system_error"))["data"]["code"] == "invalid_input"
        await one.leave()
        await two.leave()


async def test_every_request_of_a_batch_is_counted() -> None:
    async with open_rpc_client() as (vm, client):
        await vm.tenancy.store.accounts(DEFAULT_TENANT).quotas.put(Quota(metric="requests_per_minute", hard=3), 1)
        batch = [{"jsonrpc": "2.0", "id": number, "method": "image.list"} for number in range(100, 110)]
        await client.socket.send(json.dumps(batch))
        answers = [await client.answer(call["id"]) for call in batch]
        assert ["result" in answer for answer in answers] == [True] * 3 + [False] * 7
        assert answers[-1]["error"]["code"] == 429


async def test_the_rest_of_a_batch_is_not_carried_out_once_the_peer_has_lost_its_rights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carried_out = 0
    async with open_listener() as (vm, listener), open_socket(listener.app) as socket:

        async def revoke(context: Context, params: Nothing) -> object:
            nonlocal carried_out
            carried_out += 1
            for channel in vm.runtime.broadcaster.channels:
                channel.close(REVOKED)
            return {}

        assert (await socket.from_server.receive())["type"] == "websocket.accept"
        monkeypatch.setitem(METHODS, "image.list", RpcMethod(Nothing, revoke))
        await socket.send(json.dumps([{"jsonrpc": "2.0", "id": number, "method": "image.list"} for number in range(9)]))
        assert (await socket.read_close())["code"] == REVOKED.code
        await socket.leave()
    assert carried_out == 1


async def test_a_message_of_more_parts_than_any_command_may_have_is_refused() -> None:
    async with open_rpc_client() as (_, client):
        image_id = (await client.ask("image.create"))["record"]["imageId"]
        for parts in (25_000, 110_000):
            content = [{"type": "text", "text": ""}] * parts
            code, text = await client.refused("message.send", imageId=image_id, content=content)
            assert (code, "values" in text) == (-32602, True)
        assert (await client.ask("image.messages", imageId=image_id))["messages"] == []
