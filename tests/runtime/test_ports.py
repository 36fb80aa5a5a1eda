import anyio
import pytest
from tests.conformance.summaries import exchanges, sum_up
from tests.operations.fixtures import open_desk
from tests.runtime.fixtures import open_world, tool

from agentvm.drivers.base import UserEntry
from agentvm.drivers.scripted import Pause, ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, SessionId, TurnId
from agentvm.model.limits import Compaction
from agentvm.model.message import UserMessage
from agentvm.runtime import histories, ports


@pytest.mark.parametrize("by", ["model", "off"])
async def test_a_summary_is_recalled_where_the_tenant_wants_one(by: str) -> None:
    async with open_desk(compaction=Compaction(by=by)) as desk:  # type: ignore[arg-type]
        image = await desk.create_image()
        tenant, home, session_id = desk.peer.tenant_id, ContainerId("c1"), SessionId(image["sessionId"])
        log = desk.vm.tenancy.store.tenant(tenant).container(home).log(session_id)
        await log.record(messages=exchanges(1, 2), now=1)
        assert await sum_up(log, "s1", 1)
        recalled = await desk.vm.runtime._ports.recall(tenant, home, session_id)
        assert (recalled.summary is None) == (by == "off")
        assert list(recalled.messages) == (exchanges(2) if by == "model" else exchanges(1, 2))


def asked(number: int, size: int) -> UserMessage:
    return UserMessage(
        id=MessageId(f"q{number}"), timestamp=1, turn_id=TurnId(f"t{number}"), role="user", content=str(number) * size
    )


async def test_the_newest_of_a_history_is_recalled_up_to_a_budget_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "SMALL_HISTORY_BYTES", 1_000)
    monkeypatch.setattr(ports, "HISTORY_MAX_BYTES", 5_000)
    async with open_world(ScriptedDriver()) as world:
        home, session_id = world.image.container_id, world.image.session_id
        log = world.store.tenant(DEFAULT_TENANT).container(home).log(session_id)
        await log.record(messages=[asked(number, 1_000) for number in range(9)], now=1)
        recall = world.runtime._ports.recall
        recalled = await recall(DEFAULT_TENANT, home, session_id, MessageId("q8"))
        assert [message.id for message in recalled.messages] == ["q5", "q6", "q7", "q8"]
        assert recalled.truncated
        # Of these only what the model's window may hold stays in memory while it is asked.
        recalled = await recall(DEFAULT_TENANT, home, session_id, MessageId("q8"), 700)
        assert [message.id for message in recalled.messages] == ["q7", "q8"]


async def test_a_message_that_is_more_than_a_model_can_be_told_fails_its_own_turn_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ports, "SMALL_HISTORY_BYTES", 1_000)
    monkeypatch.setattr(ports, "HISTORY_MAX_BYTES", 5_000)
    monkeypatch.setattr(ports, "TURN_MAX_BYTES", 10_000)
    monkeypatch.setattr(histories, "HISTORY_MAX_BYTES", 10_000)
    driver = ScriptedDriver()
    async with open_world(driver) as world:
        agent = world.start()
        turn_id = await world.say(agent, "x" * 9_000)
        await world.hear("turn_response", turn_id=turn_id)
        turn_id = await world.say(agent, "x" * 20_000)
        heard = await world.hear("turn_response", turn_id=turn_id)
        assert [event["data"]["code"] for event in heard if event["type"] == "error_occurred"] == ["history_too_large"]
        assert len(driver.prompts) == 1
        # The next one is answered, without what was too large.
        turn_id = await world.say(agent, "small")
        heard = await world.hear("turn_response", turn_id=turn_id)
        assert heard[-1]["data"]["outcome"] == "completed"
        assert driver.prompts[-1].conversation == (UserEntry(content="small"),)


async def test_of_a_long_session_what_fills_the_window_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "LEAST_HISTORY_BYTES", 100)
    async with open_world(ScriptedDriver()) as world:
        home, session_id = world.image.container_id, world.image.session_id
        log = world.store.tenant(DEFAULT_TENANT).container(home).log(session_id)
        await log.record(messages=[asked(number, 300) for number in range(100, 300)], now=1)
        recall = world.runtime._ports.recall
        recalled = await recall(DEFAULT_TENANT, home, session_id, MessageId("q299"), 1_000)
        assert recalled.truncated
        assert 3 <= len(recalled.messages) < 30, "a token is three bytes, so that four messages fill the window"
        again = await recall(DEFAULT_TENANT, home, session_id, MessageId("q299"), 900)
        assert all(one is other for one, other in zip(again.messages, recalled.messages, strict=True))
        larger = await recall(DEFAULT_TENANT, home, session_id, MessageId("q299"), 10_000)
        assert len(larger.messages) > len(recalled.messages)


async def test_messages_that_wait_behind_a_turn_are_no_burden_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "SMALL_HISTORY_BYTES", 1_000)
    monkeypatch.setattr(ports, "HISTORY_MAX_BYTES", 5_000)
    monkeypatch.setattr(ports, "TURN_MAX_BYTES", 10_000)
    gate = anyio.Event()
    driver = ScriptedDriver(in_turn([Pause(gate), *tool_calls(("c", "look", {}))], reply("done")))

    async def look(arguments: dict[str, object]) -> object:
        return "seen"

    async with open_world(driver, tools=[tool("look", look)]) as world:
        agent = world.start()
        first = await world.say(agent, "first")
        for _ in range(3):
            await world.say(agent, "x" * 9_000)
        gate.set()
        heard = await world.hear("turn_response", turn_id=first)
        assert heard[-1]["data"]["outcome"] == "completed"
