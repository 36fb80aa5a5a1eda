import pytest
from tests.conformance.records import message
from tests.operations.fixtures import Desk, open_desk

from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.message import Message
from agentvm.sessions import message_pages
from agentvm.sharing import reservation

SIZE = 1_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes that a test can fill."""
    monkeypatch.setattr(reservation, "WAIT_SECONDS", 0.01)
    for name, size in (
        ("SMALL_BYTES", 2 * SIZE),
        ("PAGE_BYTES", 4 * SIZE),
        ("HISTORY_BYTES", 10 * SIZE),
        ("FRAME_MAX_BYTES", 20 * SIZE),
        ("HISTORY_MESSAGES", 50),
    ):
        monkeypatch.setattr(message_pages, name, size)


async def fill(desk: Desk, *sizes: int) -> tuple[str, list[Message]]:
    """The default session of an image in which somebody has said that much."""
    image = await desk.create_image()
    said: list[Message] = [message(f"m{number}", "x" * size) for number, size in enumerate(sizes)]
    log = desk.peer.store.container(ContainerId("c1")).log(SessionId(image["sessionId"]))
    await log.record(messages=said, now=2)
    return image["sessionId"], said


def ids(reply: dict[str, list[dict[str, str]]]) -> list[str]:
    return [one["id"] for one in reply["messages"]]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([10, 10], [0, 1]),
        ([SIZE] * 5, [0, 1, 2, 3, 4]),
        ([SIZE] * 20, [11, 12, 13, 14, 15, 16, 17, 18, 19]),
        ([10, 12 * SIZE], [1]),
        ([10, 30 * SIZE], []),
        ([10] * 60, list(range(10, 60))),
    ],
    ids=["small", "all that fits", "the newest", "one that is larger", "one that cannot be sent", "too many"],
)
async def test_a_reply_holds_the_newest_messages_and_says_what_it_left_out(sizes: list[int], expected: list[int]) -> None:
    async with open_desk() as desk:
        session_id, said = await fill(desk, *sizes)
        reply = await desk.ask("session_messages", sessionId=session_id)
        assert ids(reply) == [said[number].id for number in expected]
        assert reply.get("truncated", False) == (len(expected) < len(sizes))
        assert desk.vm.budget.reserved == 0


async def test_a_page_of_large_messages_is_shorter_and_the_next_one_goes_on() -> None:
    async with open_desk() as desk:
        session_id, said = await fill(desk, *[SIZE] * 5, 15 * SIZE, SIZE)
        found: list[list[str]] = []
        cursor = None
        while True:
            page = await desk.ask("session_history", sessionId=session_id, cursor=cursor)
            found.append(ids(page))
            if (cursor := page.get("nextCursor")) is None:
                break
        assert found == [["m0", "m1", "m2"], ["m3", "m4"], ["m5"], ["m6"]]
        assert [name for names in found for name in names] == [one.id for one in said]


async def test_a_message_that_cannot_be_sent_is_refused_and_not_taken_for_the_end() -> None:
    async with open_desk() as desk:
        session_id, _ = await fill(desk, 30 * SIZE)
        assert (await desk.ask("session_history", sessionId=session_id))["errorCode"] == "input_too_large"


async def test_a_large_history_is_refused_while_there_is_no_room_for_it_and_a_small_one_is_not() -> None:
    async with open_desk() as desk:
        large, _ = await fill(desk, *[SIZE] * 5)
        small, _ = await fill(desk, 10)
        budget = desk.vm.budget
        assert budget.reserve(None, budget.share_bytes)
        # All that is not kept for those who hold little.
        while budget.reserve(desk.peer.tenant_id, 1024 * 1024):
            pass
        for kind in ("session_messages", "session_history"):
            assert (await desk.ask(kind, sessionId=large))["errorCode"] == ServerBusy.code
            assert len((await desk.ask(kind, sessionId=small))["messages"]) == 1
