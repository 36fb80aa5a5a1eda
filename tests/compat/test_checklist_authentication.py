"""Checklist 6, 7 and 52: who connects is known, and nobody reaches what is not theirs. With authentication on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.support.serving import Play
from tests.support.wire import Browser, client
from websockets.exceptions import InvalidStatus

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SessionSettings, SystemSettings
from agentvm.model.account import User
from agentvm.model.ids import DEFAULT_TENANT, UserId
from agentvm.model.principal import EVERYTHING, Principal

OPERATOR = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)


@asynccontextmanager
async def guarded(*names: str) -> AsyncIterator[tuple[str, list[str]]]:
    """A server's address, and a key for each of these users."""
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0, auth="on"), sessions=SessionSettings(titles="off")
    )
    async with start_server(config, drivers={"scripted": ScriptedDriver(Play())}) as server:
        tenancy, keys = server.server.vm.tenancy, list[str]()
        for name in names:
            user = User(user_id=UserId(name), tenant_id=DEFAULT_TENANT, external_id=name, created_at=1, updated_at=1)
            await tenancy.access.add_user(user)
            _, key = await tenancy.access.issue(DEFAULT_TENANT, name=name, granter=OPERATOR, user_id=user.user_id)
            keys.append(key.reveal())
        yield server.ws_url, keys


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_item_6_credentials_of_a_browser_are_evaluated_on_each_connection_and_echoed_to_nobody() -> None:
    async with guarded("alice", "bob") as (url, keys):
        browser = Browser(url, bearer(keys[0]))
        async with client(url, additional_headers=bearer(keys[1])) as bob:
            for _ in range(2):
                async with browser.connected() as alice:
                    record = await alice.image("user-alice")
                    await alice.say(record["imageId"], "hello there")
                    assert alice.types.count("turn_response") == 1
                    assert keys[0] not in str(alice.events)
            await bob.settle()
            assert keys[0] not in str(bob.events)
            assert "auth" not in bob.types


async def test_item_6_a_browser_with_bad_credentials_is_told_and_closed() -> None:
    async with guarded("alice") as (url, _), Browser(url, bearer("nonsense")).connected() as mallory:
        await mallory.wait_closed()
        assert mallory.socket.close_code == 4401


async def test_item_7_a_bad_token_in_the_upgrade_is_401_and_no_socket() -> None:
    async with guarded("alice") as (url, keys):
        for key in ("nonsense", keys[0][:-1], ""):
            with pytest.raises(InvalidStatus) as refused:
                async with client(url, additional_headers=bearer(key)):
                    pass
            assert refused.value.response.status_code == 401
        async with client(url, additional_headers=bearer(keys[0])) as alice:
            assert "error" not in await alice.request("image_list_request", containerId="user-alice")


async def test_item_52_one_user_cannot_list_get_message_interrupt_delete_or_subscribe_to_anothers_images() -> None:
    async with guarded("alice", "bob") as (url, keys):
        async with (
            client(url, additional_headers=bearer(keys[0])) as alice,
            client(url, additional_headers=bearer(keys[1])) as bob,
        ):
            record = await alice.image("user-alice")
            image_id = record["imageId"]
            for kind, data in (
                ("image_get_request", {}),
                ("image_messages_request", {}),
                ("image_run_request", {}),
                ("image_delete_request", {}),
                ("agent_interrupt_request", {}),
                ("message_send_request", {"content": "let me in"}),
            ):
                mine = await bob.request(kind, imageId=image_id, **data)
                nobodys = await bob.request(kind, imageId="img_0000000_000000000000", **data)
                for reply, named in ((mine, image_id), (nobodys, "img_0000000_000000000000")):
                    reply.pop("requestId")
                    assert "Alice" not in str(reply)
                    reply.update({name: str(value).replace(named, "<id>") for name, value in reply.items()})
                assert mine == nobodys, kind
            assert (await bob.request("image_list_request"))["records"] == []
            await bob.send({"type": "subscribe", "sessionId": record["sessionId"]})
            await bob.settle()
            mark = len(bob.events)
            await alice.say(image_id, "hello there")
            await bob.settle()
            assert bob.types[mark:] == ["container_list_response"]
            assert len((await alice.request("image_messages_request", imageId=image_id))["messages"]) == 2
