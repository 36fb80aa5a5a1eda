import json
from collections.abc import Sequence
from contextlib import ExitStack

import anyio
import pytest

from agentvm.errors import StoreFailed, Unauthenticated
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.protocol.connection import Connection
from agentvm.runtime.channel import Closing
from agentvm.server import anteroom
from agentvm.server.anteroom import MAX_KEPT, MAX_ROOMS, MAX_ROOMS_PER_ADDRESS, Anteroom, Rooms

pytestmark = pytest.mark.anyio

ALICE = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)


async def authenticate(credential: str) -> Principal:
    if credential == "broken":
        raise StoreFailed("the disk is gone")
    if credential != "good":
        raise Unauthenticated("no")
    return ALICE


class Visitor:
    """Says what is given, then waits for ever, or leaves."""

    def __init__(self, frames: Sequence[object], *, leaves: bool = False) -> None:
        self._frames = [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames]
        self._leaves = leaves
        self.heard: list[dict[str, object]] = []
        self.room = Anteroom(Connection("c"), authenticate, lambda: 7)

    async def read(self) -> str | None:
        if self._frames:
            return self._frames.pop(0)
        if not self._leaves:
            await anyio.sleep_forever()
        return None

    async def write(self, text: str) -> None:
        self.heard.append(json.loads(text))

    async def wait(self) -> Principal | Closing | None:
        with anyio.fail_after(5):
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
            {"__ack": "c_1"},
            "no json",
            {},
            auth("Bearer good"),
        ]
    )
    assert await visitor.wait() == ALICE
    assert [(wish.session_id, wish.after) for wish in visitor.room.kept] == [("sess_1", None), ("sess_2", 7)]
    data = [reply["data"] for reply in visitor.heard]
    assert [reply["type"] for reply in visitor.heard] == ["image_list_response", "nonsense_response"]
    assert [one["requestId"] for one in data if isinstance(one, dict)] == ["r1", "r2"]
    assert {one["errorCode"] for one in data if isinstance(one, dict)} == {"unauthenticated"}


async def test_no_more_is_kept_than_allowed() -> None:
    wishes = [{"type": "subscribe", "sessionId": f"s{number}"} for number in range(MAX_KEPT + 10)]
    visitor = Visitor([*wishes, auth("Bearer good")])
    await visitor.wait()
    assert len(visitor.room.kept) == MAX_KEPT


async def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anteroom, "PATIENCE", 0.01)
    closing = await Visitor([]).wait()
    assert isinstance(closing, Closing)
    assert closing.code == 4401


async def test_who_leaves_is_gone() -> None:
    assert await Visitor([], leaves=True).wait() is None


async def test_so_many_may_wait_and_fewer_from_one_place() -> None:
    rooms = Rooms()
    with ExitStack() as waiting:
        for _ in range(MAX_ROOMS_PER_ADDRESS):
            assert rooms.hindrance("a") is None
            waiting.enter_context(rooms.take("a"))
        assert (rooms.hindrance("a") or ("",))[0] == 429
        for number in range(MAX_ROOMS - MAX_ROOMS_PER_ADDRESS):
            assert rooms.hindrance(f"b{number}") is None
            waiting.enter_context(rooms.take(f"b{number}"))
        assert (rooms.hindrance("c") or ("",))[0] == 503
    assert rooms.hindrance("a") is None
