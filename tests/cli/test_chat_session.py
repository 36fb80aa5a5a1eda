from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from tests.runtime.test_open_question import Tailor

from agentvm import AgentX, Definition, ImageConfig, ScriptedDriver, ServerConfig, create_agentx, local_runtime
from agentvm.cli.chat_session import LABEL_CHARACTERS_MAX, ChatSession, first_words, text_of
from agentvm.cli.session_start import SessionStart
from agentvm.config import MEMORY, BillingSettings, PlanSettings, SystemSettings
from agentvm.drivers.scripted import in_turn, reply, tool_calls
from agentvm.errors import DriverNotFound, QuotaExceeded, SessionNotFound
from agentvm.model.account import Allowance, Quota
from agentvm.model.ids import MessageId
from agentvm.model.message import FilePart, ImagePart, TextPart, UserMessage
from agentvm.model.money import ModelRate
from agentvm.runtime.tools import tool_of


@pytest.fixture
async def agentx(anyio_backend: str) -> AsyncIterator[AgentX]:
    source = local_runtime(ServerConfig(system=SystemSettings(data_dir=MEMORY)), drivers={"scripted": ScriptedDriver()})
    async with create_agentx(source) as opened:
        yield opened


async def opened(agentx: AgentX, *, session: str | None = None, model: str | None = None) -> ChatSession:
    conversation = ChatSession(agentx, container_id="c1", start=SessionStart(model=model))
    await conversation.open(session)
    return conversation


async def say(conversation: ChatSession, text: str) -> list[str]:
    return [event.type async for event in conversation.send(text)]


async def test_the_last_session_of_the_container_is_resumed(agentx: AgentX) -> None:
    first = await opened(agentx)
    assert (await say(first, "hello"))[-1] == "turn_response"
    again = await opened(agentx)
    assert again.session.session_id == first.session.session_id
    assert len(await again.messages()) == 2


@pytest.mark.parametrize(("answers_held", "last"), [(True, "tool_waiting"), (False, "turn_response")])
async def test_a_question_of_a_call_that_is_held_open_ends_the_events_only_for_whoever_answers_it(
    answers_held: bool, last: str
) -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "shop", {})), reply("done")))
    source = local_runtime(
        ServerConfig(system=SystemSettings(data_dir=MEMORY)),
        definitions=[Definition(name="tailor", tools=("shop",))],
        drivers={"scripted": driver},
        tools=[tool_of(Tailor([60.0 if answers_held else 0.0]))],
    )
    async with create_agentx(source) as agentx:
        image = await agentx.images.create(ImageConfig(definition="tailor"), container_id="c1")
        conversation = await opened(agentx, session=image.session_id)
        conversation.answers_held = answers_held
        events = [event async for event in conversation.send("a coat")]
        assert events[-1].type == last
        if answers_held:
            answer = conversation.answer(events[-1].data, decision="answer", result={"size": "L"})
            assert [event.type async for event in answer][-1] == "turn_response"


async def test_a_chosen_model_means_a_new_session(agentx: AgentX) -> None:
    first = await opened(agentx)
    other = await opened(agentx, model="scripted/other")
    assert other.session.session_id != first.session.session_id
    with pytest.raises(DriverNotFound):
        await opened(agentx, model="nobody/other")


async def test_a_fresh_one_is_new_although_there_is_a_last_one(agentx: AgentX) -> None:
    first = await opened(agentx)
    again = ChatSession(agentx, container_id="c1")
    await again.open(None, fresh=True)
    assert again.session.session_id != first.session.session_id
    await again.open(first.session.session_id, fresh=True)
    assert again.session.session_id == first.session.session_id


async def test_a_session_is_resumed_by_its_id(agentx: AgentX) -> None:
    first = await opened(agentx)
    await first.start()
    session_id = first.session.session_id
    await first.start()
    assert (await opened(agentx, session=session_id)).session.session_id == session_id
    with pytest.raises(SessionNotFound):
        await opened(agentx, session="sess_nobody")


async def test_sessions_are_listed_newest_first_by_title_or_first_words(agentx: AgentX) -> None:
    conversation = await opened(agentx)
    await say(conversation, "the   first words\nof many")
    await conversation.start()
    await conversation.start()
    await say(conversation, "unseen, for it has a title")
    await conversation.session.set_title("Dragons")
    await conversation.start()
    assert [(item.label, item.current) for item in await conversation.list()] == [
        ("", True),
        ("Dragons", False),
        ("the first words of many", False),
    ]


async def test_an_interrupt_without_a_turn_changes_nothing(agentx: AgentX) -> None:
    conversation = await opened(agentx)
    await conversation.interrupt()
    assert (await say(conversation, "still there"))[-1] == "turn_response"


async def test_what_was_shown_is_read(agentx: AgentX) -> None:
    conversation = await opened(agentx)
    await say(conversation, "hello")
    (listed,) = (await agentx.sessions.browse("c1")).sessions
    assert listed.unread == 0


async def test_a_conversation_that_was_not_opened_has_no_session(agentx: AgentX) -> None:
    conversation = ChatSession(agentx, container_id="c1")
    with pytest.raises(RuntimeError):
        await anext(conversation.send("hello"))
    with pytest.raises(RuntimeError):
        await conversation.messages()


def test_first_words_are_one_short_line() -> None:
    message = UserMessage(id=MessageId("m"), timestamp=0, role="user", content="word " * 50)
    assert first_words(()) == ""
    assert len(first_words((message,))) == LABEL_CHARACTERS_MAX


def test_what_is_no_text_is_named() -> None:
    parts = (TextPart(text="look:"), ImagePart(data="", media_type="image/png"), FilePart(data="", media_type="text/plain"))
    assert text_of(parts) == "look: [image] [file]"


TOO_LITTLE = PlanSettings(limits=Allowance(quotas=(Quota(metric="tokens_per_day", hard=100),)))


async def test_of_a_first_message_that_is_refused_nothing_is_left_behind() -> None:
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), plans={"default": TOO_LITTLE})
    async with create_agentx(local_runtime(config, drivers={"scripted": ScriptedDriver()})) as agentx:
        conversation = await opened(agentx)
        for _ in range(2):
            with pytest.raises(QuotaExceeded, match="Daily token limit: 100 of 100 left"):
                await say(conversation, "a question")
            assert await agentx.images.list("c1") == ()


async def test_a_turn_that_was_refused_before_the_model_was_asked_leaves_nothing_either() -> None:
    prices = {"scripted": ModelRate(input=Decimal(1), output=Decimal(1))}
    plan = PlanSettings(limits=Allowance(quotas=(Quota(metric="budget_per_month", hard=1),)))
    config = ServerConfig(
        system=SystemSettings(data_dir=MEMORY), billing=BillingSettings(prices=prices), plans={"default": plan}
    )
    async with create_agentx(local_runtime(config, drivers={"scripted": ScriptedDriver()})) as agentx:
        conversation = await opened(agentx)
        assert "error_occurred" in await say(conversation, "a question")
        assert await agentx.images.list("c1") == ()


async def test_a_session_in_which_something_was_answered_stays_when_a_later_message_is_refused() -> None:
    plan = PlanSettings(limits=Allowance(quotas=(Quota(metric="tokens_per_day", hard=1_500),)))
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), plans={"default": plan})
    async with create_agentx(local_runtime(config, drivers={"scripted": ScriptedDriver()})) as agentx:
        conversation = await opened(agentx)
        assert "error_occurred" not in await say(conversation, "a question")
        with pytest.raises(QuotaExceeded):
            await say(conversation, "word " * 400)
        assert len(await agentx.images.list("c1")) == 1
        assert len(await conversation.messages()) == 2
