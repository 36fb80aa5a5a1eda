from collections.abc import Sequence

import anyio
import msgspec
import pytest
from tests.runtime.fixtures import World, open_world

from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.conversation import conversation_of, count_tokens
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, reply
from agentvm.events.base import Event, EventData, EventScope
from agentvm.events.lifecycle import SessionCompacted, SessionRewound
from agentvm.events.message import ToolResultMessageEvent, UserMessageEvent
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, RewindId, SessionId, SummaryId, TenantId, TurnId
from agentvm.model.message import ImagePart, TextOutput, ToolResult, ToolResultMessage, UserMessage
from agentvm.model.session import Summary
from agentvm.model.usage import NO_USAGE
from agentvm.runtime import histories as module
from agentvm.runtime.histories import Histories
from agentvm.runtime.history import keep_to
from agentvm.storage.base import Recalled
from agentvm.storage.sql.log import LogStore

S1 = SessionId("s1")


def said(number: int, text: str = "hello") -> UserMessage:
    return UserMessage(id=MessageId(f"m{number}"), timestamp=number, turn_id=TurnId(f"t{number}"), role="user", content=text)


def event(data: EventData, *, seq: int = 1, session_id: SessionId = S1) -> Event:
    scope = EventScope(container_id=ContainerId("c1"), session_id=session_id)
    return Event(data=data, scope=scope, timestamp=1, tenant_id=DEFAULT_TENANT, seq=seq)


def keep(histories: Histories, *messages: UserMessage, session_id: SessionId = S1, running: Sequence[str] = ()) -> None:
    with histories.reading(DEFAULT_TENANT, session_id, summary=True) as kept:
        kept(Recalled(messages=messages, running=frozenset(map(TurnId, running))))


def ids(histories: Histories, current: int, session_id: SessionId = S1) -> list[str] | None:
    found = histories.find(DEFAULT_TENANT, session_id, said(current).id, summary=True)
    return None if found is None else [message.id for message in found.messages]


class Reads:
    """Counts what is read of histories."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        recall = LogStore.recall

        async def counted(store: LogStore, *args: object, **kwargs: object) -> Recalled:
            self.count += 1
            return await recall(store, *args, **kwargs)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(LogStore, "recall", counted)


async def talk(world: World, *texts: str) -> None:
    agent = world.start()
    for text in texts:
        turn_id = await world.say(agent, text)
        await world.hear("turn_response", turn_id=turn_id)


def asked(driver: ScriptedDriver) -> list[list[str]]:
    """What the user had said, as the model was told in each call."""
    return [[str(entry.content) for entry in prompt.conversation if isinstance(entry, UserEntry)] for prompt in driver.prompts]


async def test_a_conversation_is_read_once_and_told_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, driver = Reads(monkeypatch), ScriptedDriver()
    async with open_world(driver) as world:
        await talk(world, "one", "two", "three")
        assert reads.count == 1
        assert asked(driver) == [["one"], ["one", "two"], ["one", "two", "three"]]
        kept = world.runtime.histories.find(
            DEFAULT_TENANT, world.image.session_id, (await world.messages())[0].id, summary=True
        )
        assert kept is not None
        assert kept.messages == await world.messages()


async def test_what_is_taken_back_is_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, driver = Reads(monkeypatch), ScriptedDriver()
    async with open_world(driver) as world:
        await talk(world, "one", "two")
        await world.start().rewrite(keep_to((await world.messages())[1].id))
        await talk(world, "three")
        assert asked(driver)[-1] == ["one", "three"]
        assert reads.count == 2


async def test_a_message_that_waited_is_told_in_its_turn() -> None:
    going = anyio.Event()

    def play(prompt: Prompt) -> list[ScriptStep]:
        return [Pause(going), *reply("yes")]

    driver = ScriptedDriver(play)
    async with open_world(driver) as world:
        agent = world.start()
        await world.say(agent, "one")
        last = await world.say(agent, "two")
        going.set()
        await world.hear("turn_response", turn_id=last)
        assert asked(driver) == [["one"], ["one", "two"]]


async def test_a_commit_that_failed_is_not_remembered() -> None:
    broken = [False]
    driver = ScriptedDriver()
    async with open_world(driver, fails=lambda number: broken[0]) as world:
        await talk(world, "one")
        histories, session_id = world.runtime.histories, world.image.session_id
        (first, *_) = await world.messages()
        assert histories.find(DEFAULT_TENANT, session_id, first.id, summary=True) is not None
        agent = world.start()
        accepted = await agent.receive("two")
        broken[0] = True
        agent.release(accepted)
        await world.hear("turn_response", turn_id=accepted.state.turn_id)
        assert histories.find(DEFAULT_TENANT, session_id, first.id, summary=True) is None


async def test_messages_are_added_once_and_in_order() -> None:
    histories = Histories()
    keep(histories, said(1))
    for number in (2, 2, 3):
        histories.react(event(UserMessageEvent(message=said(number))))
    assert ids(histories, 3) == ["m1", "m2", "m3"]
    assert ids(histories, 4) is None
    assert histories.find(DEFAULT_TENANT, S1, said(1).id, summary=False) is None
    assert histories.find(TenantId("other"), S1, said(1).id, summary=True) is None


END = TurnResponse(
    turn_id=TurnId("t1"),
    message_id=MessageId("m1"),
    outcome="completed",
    stop_reason="end_turn",
    duration=1,
    usage=NO_USAGE,
    model=None,
    timestamp=1,
)
CHANGES = {
    "a rewind": event(SessionRewound(session_id=S1, rewind_id=RewindId("r1"), message_ids=(), rewound_at=1)),
    "a summary": event(SessionCompacted(session_id=S1, summary_id=SummaryId("s"), message_id=MessageId("m"), tokens=1), seq=0),
    "a message that could not be stored": event(UserMessageEvent(message=said(2)), seq=0),
    "an end that could not be stored": event(END, seq=0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
async def test_another_change_forgets_it_also_while_it_is_read(change: Event) -> None:
    histories = Histories()
    keep(histories, said(1))
    histories.react(change)
    assert ids(histories, 1) is None
    with histories.reading(DEFAULT_TENANT, S1, summary=True) as kept:
        histories.react(change)
        kept(Recalled(messages=(said(1),)))
    assert ids(histories, 1) is None


async def test_a_history_that_grows_while_it_is_read_or_lacks_what_waits_is_not_kept() -> None:
    histories = Histories()
    with histories.reading(DEFAULT_TENANT, S1, summary=True) as kept:
        histories.react(event(UserMessageEvent(message=said(2))))
        kept(Recalled(messages=(said(1),)))
    assert ids(histories, 1) is None
    keep(histories, said(1), running=("t1", "t2"))
    assert ids(histories, 1) is None
    keep(histories, said(1), running=("t1",))
    assert ids(histories, 1) == ["m1"]
    histories.forget_all()
    assert ids(histories, 1) is None


PICTURE = ImagePart(media_type="image/png", data="attachment:sha256:" + "0" * 64)
RESULT = ToolResult(id="c1", name="fetch", output=TextOutput(value="x"), tainted=True)
NOT_PLAIN: dict[str, EventData] = {
    "a file": UserMessageEvent(message=msgspec.structs.replace(said(2), content=(PICTURE,))),
    "a stranger's text": ToolResultMessageEvent(
        message=ToolResultMessage(
            id=MessageId("m2"), timestamp=1, turn_id=TurnId("t1"), role="tool", tool_call_id="c1", tool_result=RESULT
        )
    ),
}


@pytest.mark.parametrize("data", NOT_PLAIN.values(), ids=NOT_PLAIN.keys())
async def test_a_history_with_a_file_or_the_text_of_a_stranger_is_not_plain(data: EventData) -> None:
    histories = Histories()
    keep(histories, said(1))
    before = histories.find(DEFAULT_TENANT, S1, said(1).id, summary=True)
    histories.react(event(data))
    after = histories.find(DEFAULT_TENANT, S1, said(1).id, summary=True)
    assert before is not None
    assert after is not None
    assert (before.plain, after.plain) == (True, False)
    with histories.reading(DEFAULT_TENANT, S1, summary=True) as kept:
        kept(Recalled(messages=after.messages))
    again = histories.find(DEFAULT_TENANT, S1, said(1).id, summary=True)
    assert again is not None
    assert again.plain is False


@pytest.mark.parametrize("tainted", [True, False])
async def test_a_history_behind_a_summary_of_strangers_text_is_not_plain(tainted: bool) -> None:
    histories = Histories()
    about = {"summary_id": SummaryId("sum_1"), "message_id": MessageId("m1"), "model": "scripted/m", "made_at": 1}
    summary = Summary(**about, text="They talked.", tokens=3, tainted=tainted)  # type: ignore[arg-type]
    with histories.reading(DEFAULT_TENANT, S1, summary=True) as kept:
        kept(Recalled(summary=summary, messages=(said(2),)))
    history = histories.find(DEFAULT_TENANT, S1, said(2).id, summary=True)
    assert history is not None
    assert history.plain is not tainted


async def test_a_history_is_weighed_whole_or_not_at_all() -> None:
    histories = Histories()
    assert histories.weigh(DEFAULT_TENANT, S1) is None
    keep(histories, said(1, "one"), said(2, "two, three"))
    for number, text in ((3, "four"), (4, "five " * 50)):
        histories.react(event(UserMessageEvent(message=said(number, text))))
        whole = histories.find(DEFAULT_TENANT, S1, said(1).id, summary=True)
        assert whole is not None
        assert histories.weigh(DEFAULT_TENANT, S1) == sum(
            count_tokens(conversation_of([message])) for message in whole.messages
        )
    keep(histories, said(1), msgspec.structs.replace(said(2), content=(PICTURE,)))
    assert histories.weigh(DEFAULT_TENANT, S1) is None
    with histories.reading(DEFAULT_TENANT, S1, summary=True) as kept:
        kept(Recalled(messages=(said(2),), truncated=True), 1_000)
    assert histories.weigh(DEFAULT_TENANT, S1) is None


async def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 3 * module.MESSAGE_BYTES)
    monkeypatch.setattr(module, "HISTORY_MAX_BYTES", 2 * module.MESSAGE_BYTES)
    histories, sessions = Histories(), [SessionId(f"s{number}") for number in range(4)]
    for session_id in sessions:
        keep(histories, said(1, ""), session_id=session_id)
    assert [ids(histories, 1, session_id) for session_id in sessions] == [None, ["m1"], ["m1"], ["m1"]]
    for number in (2, 3):
        histories.react(event(UserMessageEvent(message=said(number, "")), session_id=sessions[3]))
    assert ids(histories, 1, sessions[3]) is None
    keep(histories, said(1, "x" * 2 * module.MESSAGE_BYTES))
    assert ids(histories, 1) is None


async def test_a_history_that_nobody_needs_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = Histories()
    keep(histories, said(1))
    histories.expire()
    assert ids(histories, 1) == ["m1"]
    monkeypatch.setattr(module, "IDLE_SECONDS", -1.0)
    histories.expire()
    assert ids(histories, 1) is None
