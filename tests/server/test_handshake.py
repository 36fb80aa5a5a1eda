import json
from collections.abc import Sequence

import anyio
import pytest

from agentvm.errors import StoreFailed, Unauthenticated
from agentvm.model.ids import DEFAULT_TENANT, SessionId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.operations.table import CODEC
from agentvm.protocol.connection import PeerConnection, RpcReceived, SubscribeReceived
from agentvm.protocol.rpc import RpcCall
from agentvm.runtime.channel import Closing
from agentvm.server import handshake
from agentvm.server.handshake import CALLS_MAX, SUBSCRIPTIONS_MAX, Handshake

ALICE = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)


async def authenticate(credential: str) -> Principal:
    if credential == "broken":
        raise StoreFailed("the disk is gone")
    if credential in ("revoked", "expired", "suspended"):
        raise Unauthenticated("no longer", details={"reason": credential})
    if credential != "good":
        raise Unauthenticated("no")
    return ALICE


class Visitor:
    """Says what is given, then waits for ever, or leaves."""

    def __init__(self, frames: Sequence[object], *, leaves: bool = False) -> None:
        self._frames = [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames]
        self._leaves = leaves
        self.heard: list[dict[str, object]] = []
        self.room = Handshake(PeerConnection("c", CODEC), authenticate, lambda: 7)

    async def read(self) -> str | None:
        if self._frames:
            return self._frames.pop(0)
        if not self._leaves:
            await anyio.sleep_forever()
        return None

    async def write(self, text: str) -> None:
        self.heard.append(json.loads(text))

    async def wait(self) -> Principal | Closing | None:
        with anyio.fail_after(60):
            return await self.room.wait(self.read, self.write)


def auth(value: str, name: str = "Authorization") -> dict[str, object]:
    return {"type": "auth", "headers": {name: value}}


@pytest.mark.parametrize("name", ["Authorization", "authorization", "AUTHORIZATION"])
async def test_who_says_who_it_is_is_let_in(name: str) -> None:
    assert await Visitor([auth("Bearer good", name)]).wait() == ALICE


@pytest.mark.parametrize(
    "frame", [auth("Bearer bad"), auth("good"), auth("Basic good"), {"type": "auth"}, auth("", "x-api-key")]
)
async def test_wrong_credentials_close_the_socket(frame: object) -> None:
    closing = await Visitor([frame]).wait()
    assert isinstance(closing, Closing)
    assert closing.code == 4401


@pytest.mark.parametrize(
    ("credential", "closing"),
    [
        ("revoked", Closing(4401, "credentials revoked")),
        ("suspended", Closing(4403, "suspended")),
        ("expired", Closing(4408, "credentials expired")),
        ("unknown", Closing(4401, "unauthenticated")),
    ],
)
async def test_the_holder_of_credentials_hears_why_they_are_not_good(credential: str, closing: Closing) -> None:
    assert await Visitor([auth(f"Bearer {credential}")]).wait() == closing


def rpc(method: str, request_id: int | None = None, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, "params": params} | ({} if request_id is None else {"id": request_id})


async def test_requests_of_2x_are_kept_until_their_sender_says_who_it_is() -> None:
    visitor = Visitor([rpc("image.list", 3), "no json", rpc("auth", headers={"Authorization": "Bearer good"})])
    assert await visitor.wait() == ALICE
    assert [event["type"] for event in visitor.heard] == ["system_error"]
    calls = [call for received in visitor.room.kept if isinstance(received, RpcReceived) for call in received.calls]
    assert [(call.method, call.id) for call in calls if isinstance(call, RpcCall)] == [("image.list", 3), ("auth", None)]


async def test_requests_of_2x_are_refused_when_their_sender_is_nobody() -> None:
    visitor = Visitor([rpc("image.list", 3), rpc("auth", headers={"Authorization": "Bearer bad"})])
    assert isinstance(await visitor.wait(), Closing)
    assert [(answer["id"], answer["error"]["code"]) for answer in visitor.heard] == [(3, 401)]  # type: ignore[index]


async def test_no_more_requests_of_2x_are_kept_than_the_bound() -> None:
    requests = [rpc("image.list", number) for number in range(CALLS_MAX + 2)]
    visitor = Visitor([*requests, {"jsonrpc": "2.0", "id": None, "method": "x"}], leaves=True)
    assert await visitor.wait() is None
    assert [answer["id"] for answer in visitor.heard] == [CALLS_MAX, CALLS_MAX + 1, None]
    assert len(visitor.room.kept) == CALLS_MAX


async def test_a_store_that_fails_asks_to_come_back() -> None:
    closing = await Visitor([auth("Bearer broken")]).wait()
    assert isinstance(closing, Closing)
    assert closing.code == 1013


async def test_requests_are_answered_with_an_error_and_subscriptions_are_kept() -> None:
    visitor = Visitor(
        [
            {"type": "image_list_request", "data": {"containerId": "c1", "requestId": "r1"}},
            {"type": "subscribe", "sessionId": "sess_1"},
            {"type": "nonsense_request", "data": {"requestId": "r2"}},
            {"type": "subscribe", "sessionId": "sess_2", "afterCursor": "7"},
            auth("Bearer good"),
        ]
    )
    assert await visitor.wait() == ALICE
    assert visitor.room.kept == [SubscribeReceived(SessionId("sess_1"), None), SubscribeReceived(SessionId("sess_2"), 7)]
    types = ["system_error", "image_list_response", "system_error", "nonsense_response"]
    assert [reply["type"] for reply in visitor.heard] == types
    data = [reply["data"] for reply in visitor.heard if isinstance(reply["data"], dict)]
    assert [one["requestId"] for one in data] == ["r1", "r1", "r2", "r2"]
    assert {one.get("errorCode", one.get("code")) for one in data} == {"unauthenticated"}


async def test_no_more_is_kept_than_allowed() -> None:
    wishes = [{"type": "subscribe", "sessionId": f"s{number}"} for number in range(SUBSCRIPTIONS_MAX + 10)]
    visitor = Visitor([*wishes, auth("Bearer good")])
    await visitor.wait()
    assert len(visitor.room.kept) == SUBSCRIPTIONS_MAX


async def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIMEOUT_SECONDS", 0.01)
    closing = await Visitor([]).wait()
    assert isinstance(closing, Closing)
    assert closing.code == 4401


async def test_who_leaves_is_gone() -> None:
    assert await Visitor([], leaves=True).wait() is None
