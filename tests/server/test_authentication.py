"""A real server that asks who comes: the three ways in, what is refused, and what happens to those whose rights end."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, BillingSettings, SystemSettings
from agentvm.model.account import Quota, Tenant, User
from agentvm.model.ids import TenantId, UserId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.operations.table import CODEC
from agentvm.protocol.requests import Request
from agentvm.server import websocket
from agentvm.server.local import RunningServer
from agentvm.vm import AgentVM

OPERATOR = Principal(tenant_id=TenantId("default"), permissions=EVERYTHING)
ACME = TenantId("acme")


@dataclass
class Site:
    """A server with one tenant besides the operator's, and its keys."""

    server: RunningServer
    operator: str

    @property
    def vm(self) -> AgentVM:
        return self.server.server.vm

    async def key(self, tenant_id: TenantId = ACME, **rights: Any) -> tuple[str, str]:
        """Id and text of a new key."""
        record, text = await self.vm.tenancy.access.issue(tenant_id, name="test", granter=OPERATOR, **rights)
        return record.key_id, text.reveal()

    async def user(self, name: str) -> UserId:
        user = User(user_id=UserId(f"user_{name}"), tenant_id=ACME, external_id=name, created_at=1, updated_at=1)
        await self.vm.tenancy.access.add_user(user)
        return user.user_id


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    config = ServerConfig(
        system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0, auth="on"),
        billing=BillingSettings(allow_unpriced="on"),
    )
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        assert server.first_key is not None
        site = Site(server, server.first_key.reveal())
        tenant = Tenant(tenant_id=ACME, slug="acme", name="Acme", created_at=1, updated_at=1)
        await site.vm.tenancy.store.directory.add_tenant(tenant)
        yield site


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def ask(socket: ClientConnection, command: str, **data: object) -> Any:
    await socket.send(json.dumps({"type": f"{command}_request", "data": {**data, "requestId": "r"}}))
    with anyio.fail_after(60):
        while True:
            frame = json.loads(await socket.recv())
            if "__payload" in frame:
                frame = json.loads(frame["__payload"])
            if frame.get("category") == "response":
                return frame["data"]


async def closed_with(socket: ClientConnection) -> int:
    with anyio.fail_after(60):
        await socket.wait_closed()
    assert socket.close_code is not None
    return socket.close_code


async def test_three_ways_in_lead_to_the_same_place() -> None:
    async with open_site() as site:
        _, key = await site.key()
        url = site.server.ws_url
        ways: list[Any] = [
            connect(url, additional_headers=bearer(key)),
            connect(f"{url}?token={key}"),
            connect(url, subprotocols=[Subprotocol(f"avm.bearer.{key}")]),
        ]
        for way in ways:
            async with way as socket:
                assert (await ask(socket, "container_create", containerId="c1"))["containerId"] == "c1"
        async with connect(url) as socket:
            assert (await ask(socket, "container_list"))["errorCode"] == "unauthenticated"
            await socket.send(json.dumps({"type": "auth", "headers": bearer(key)}))
            assert (await ask(socket, "container_list"))["containerIds"] == ["c1"]
        # Nothing of it is in the operator's own tenant.
        async with connect(url, additional_headers=bearer(site.operator)) as socket:
            assert (await ask(socket, "container_list"))["containerIds"] == []


async def test_a_ticket_lets_one_socket_in() -> None:
    async with open_site() as site:
        principal = await site.vm.tenancy.access.authenticate(site.operator)
        ticket = await site.vm.tenancy.access.ws_token(principal)
        async with connect(f"{site.server.ws_url}?token={ticket}") as socket:
            assert "errorCode" not in await ask(socket, "container_list")
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{site.server.ws_url}?token={ticket}")
        assert refused.value.response.status_code == 401


@pytest.mark.parametrize(
    "key", ["", "nonsense", "avm_000000000000_00000000000000000000000000000000_000000", "a.b.c", "x" * 5_000]
)
async def test_credentials_that_are_not_good_open_nothing(key: str) -> None:
    async with open_site() as site:
        for given in (bearer(key), {"Authorization": key or "x"}):
            with pytest.raises(InvalidStatus) as refused:
                await connect(site.server.ws_url, additional_headers=given)
            response = refused.value.response
            assert response.status_code == 401
            assert not key or key not in (response.body or b"").decode()
        assert site.vm.runtime.broadcaster.channels[1:] == ()


async def test_credentials_given_twice_are_refused() -> None:
    async with open_site() as site:
        headers = [("Authorization", f"Bearer {site.operator}"), ("Authorization", "Bearer other")]
        with pytest.raises(InvalidStatus) as refused:
            await connect(site.server.ws_url, additional_headers=headers)
        assert refused.value.response.status_code == 400


async def test_a_user_finds_a_container_of_their_own_and_no_other() -> None:
    async with open_site() as site:
        keys = [(await site.key(user_id=await site.user(name)))[1] for name in ("alice", "bob")]
        url = site.server.ws_url
        async with connect(f"{url}?token={keys[0]}") as alice, connect(f"{url}?token={keys[1]}") as bob:
            assert (await ask(alice, "container_list"))["containerIds"] == ["user-alice"]
            record = (await ask(alice, "image_create", containerId="user-alice"))["record"]
            assert (await ask(bob, "image_get", imageId=record["imageId"])).get("record") is None
            assert (await ask(bob, "image_list", containerId="user-alice"))["errorCode"] == "container_forbidden"
            assert (await ask(bob, "image_list"))["records"] == []
            assert [one["imageId"] for one in (await ask(alice, "image_list"))["records"]] == [record["imageId"]]


async def test_a_revoked_key_closes_its_sockets_and_opens_no_more() -> None:
    async with open_site() as site:
        key_id, key = await site.key()
        _, other = await site.key()
        url = site.server.ws_url
        async with connect(f"{url}?token={key}") as socket, connect(f"{url}?token={other}") as neighbour:
            await ask(socket, "container_list")
            await site.vm.tenancy.access.revoke(ACME, key_id)  # type: ignore[arg-type]
            assert await closed_with(socket) == 4401
            with pytest.raises(InvalidStatus):
                await connect(f"{url}?token={key}")
            assert "errorCode" not in await ask(neighbour, "container_list")


async def test_a_cookie_opens_sockets_for_own_pages_until_its_session_ends() -> None:
    async with open_site() as site:
        access, url = site.vm.tenancy.access, site.server.ws_url
        _, key = await site.key()
        principal = await access.authenticate(key)
        session, text = await access.sign_in(principal, "")
        cookie = {"Cookie": f"avm_session={text.reveal()}"}
        own = {"Origin": site.server.url, "Sec-Fetch-Site": "same-origin"}
        for headers, status in (
            (cookie, 403),
            ({**cookie, "Sec-Fetch-Site": "same-origin"}, 403),
            ({**cookie, "Origin": "http://127.0.0.1:3000"}, 403),
            ({**cookie, **own, "Sec-Fetch-Site": "same-site"}, 403),
            ({**cookie, **own, **bearer(key)}, 400),
            ({**own, "Cookie": "avm_session=avmbs_x"}, 401),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, additional_headers=headers)
            assert refused.value.response.status_code == status, headers
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{url}?token={key}", additional_headers={**cookie, **own})
        assert refused.value.response.status_code == 400
        async with (
            connect(url, additional_headers={**cookie, **own}) as socket,
            connect(url, additional_headers=bearer(key)) as neighbour,
        ):
            assert "errorCode" not in await ask(socket, "container_list")
            assert await access.sign_out(principal, session.browser_session_id)
            assert await closed_with(socket) == 4401
            assert "errorCode" not in await ask(neighbour, "container_list")
        with pytest.raises(InvalidStatus) as refused:
            await connect(url, additional_headers={**cookie, **own})
        assert refused.value.response.status_code == 401


async def test_a_revoked_key_closes_the_sockets_of_its_browsers() -> None:
    async with open_site() as site:
        access = site.vm.tenancy.access
        key_id, key = await site.key()
        _, text = await access.sign_in(await access.authenticate(key), "")
        headers = {"Cookie": f"avm_session={text.reveal()}", "Origin": site.server.url}
        async with connect(site.server.ws_url, additional_headers=headers) as socket:
            await ask(socket, "container_list")
            await access.revoke(ACME, key_id)  # type: ignore[arg-type]
            assert await closed_with(socket) == 4401


async def test_a_suspended_tenant_is_shut_out_at_once() -> None:
    async with open_site() as site:
        _, key = await site.key()
        async with connect(f"{site.server.ws_url}?token={key}") as socket:
            await ask(socket, "container_list")
            await site.vm.tenancy.people.change_tenant(ACME, partial(replace, status="suspended"))
            assert await closed_with(socket) == 4403


async def test_a_socket_does_not_outlive_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.vm.EXPIRY_CHECK_SECONDS", 0.05)
    async with open_site() as site:
        _, key = await site.key(expires_at=site.vm.clock() + 500)
        async with connect(f"{site.server.ws_url}?token={key}") as socket:
            assert await closed_with(socket) == 4408


async def test_connections_have_a_quota() -> None:
    async with open_site() as site:
        _, key = await site.key()
        await site.vm.tenancy.store.accounts(ACME).quotas.put(Quota(metric="connections", hard=1), 1)
        url = site.server.ws_url
        async with connect(f"{url}?token={key}") as first:
            await ask(first, "container_list")
            with pytest.raises(InvalidStatus) as refused:
                await connect(f"{url}?token={key}")
            assert refused.value.response.status_code == 429
            async with connect(url) as late:
                await late.send(json.dumps({"type": "auth", "headers": bearer(key)}))
                assert await closed_with(late) == 4429
        async with connect(f"{url}?token={key}") as again:
            await ask(again, "container_list")


async def test_the_container_that_a_user_finds_counts_as_any_other() -> None:
    async with open_site() as site:
        keys = [(await site.key(user_id=await site.user(name)))[1] for name in ("alice", "bob")]
        await site.vm.tenancy.store.accounts(ACME).quotas.put(Quota(metric="containers", hard=1), 1)
        found = []
        # Who has a container keeps it.
        for key in (*keys, keys[0]):
            async with connect(f"{site.server.ws_url}?token={key}") as socket:
                found.append((await ask(socket, "container_list"))["containerIds"])
        assert found == [["user-alice"], [], ["user-alice"]]


async def test_requests_have_a_quota() -> None:
    async with open_site() as site:
        _, key = await site.key()
        await site.vm.tenancy.store.accounts(ACME).quotas.put(Quota(metric="requests_per_minute", hard=3), 1)
        async with connect(f"{site.server.ws_url}?token={key}") as socket:
            codes = [(await ask(socket, "container_list")).get("errorCode") for _ in range(5)]
            assert codes == [None] * 3 + ["quota_exceeded"] * 2


async def test_a_large_frame_is_counted_once_and_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []
    decode = CODEC.decode

    def note(name: str, data: msgspec.Raw) -> Request[Any]:
        decoded.append(name)
        return decode(name, data)

    monkeypatch.setattr(CODEC, "decode", note)
    async with open_site() as site:
        _, key = await site.key()
        await site.vm.tenancy.store.accounts(ACME).quotas.put(Quota(metric="requests_per_minute", hard=3), 1)
        async with connect(f"{site.server.ws_url}?token={key}") as socket:
            codes = [(await ask(socket, "container_list", padding="x" * 200_000)).get("errorCode") for _ in range(5)]
            assert codes == [None] * 3 + ["quota_exceeded"] * 2
            assert decoded == ["container_list"] * 3


@pytest.mark.parametrize("frame", ["noise", "{}", '{"type":"subscribe","sessionId":"s"}', '{"type":"nonsense_request"}'])
async def test_frames_that_are_no_commands_are_counted_too(frame: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "QUOTA_ERROR_INTERVAL_SECONDS", 60.0)
    async with open_site() as site:
        _, key = await site.key()
        await site.vm.tenancy.store.accounts(ACME).quotas.put(Quota(metric="requests_per_minute", hard=3), 1)
        async with connect(f"{site.server.ws_url}?token={key}") as socket:
            for _ in range(20):
                await socket.send('{"__ack":"x"}')
            assert "errorCode" not in await ask(socket, "container_list")
            for _ in range(10):
                await socket.send(frame)
            await socket.send('{"type":"container_list_request","data":{"requestId":"last"}}')
            told = []
            with anyio.fail_after(60):
                while True:
                    event = json.loads(await socket.recv())
                    if event["data"].get("requestId") == "last":
                        break
                    told.append(event["data"].get("code"))
            assert told.count("quota_exceeded") == 1
            assert len(told) <= 7


async def test_no_credential_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for logger in (None, "agentvm"):
        # Whatever another test has configured.
        caplog.set_level("DEBUG", logger)
    async with open_site() as site:
        _, key = await site.key()
        for given in (key, key[:-1] + "x"):
            try:
                async with connect(f"{site.server.ws_url}?token={given}") as socket:
                    await ask(socket, "container_list")
            except InvalidStatus:
                pass
        # The client of this test is in the same process and logs what it sends.
        ours = [record for record in caplog.records if not record.name.startswith("websockets")]
        assert ours
        assert key[20:52] not in str([vars(record) for record in ours])
