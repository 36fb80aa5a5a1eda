from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from tests.conformance.summaries import answered
from tests.conformance.summaries import asked as question
from tests.drivers.fixtures import FAILURES

from agentvm.drivers.anthropic_body import messages_body
from agentvm.drivers.base import AssistantEntry, ConversationEntry, Prompt, ToolResultsEntry, ToolSpec, UserEntry
from agentvm.drivers.chat_body import chat_body
from agentvm.drivers.conversation import count_tokens
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    AssistantPart,
    ErrorMessage,
    FilePart,
    ImagePart,
    Message,
    TextOutput,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserContent,
    UserMessage,
)
from agentvm.runtime.context import Exchanges, build, compose, compose_weighed
from agentvm.runtime.history import keep_to

PLENTY = 10**9


def user(turn: int | None, content: UserContent) -> UserMessage:
    turn_id = None if turn is None else TurnId(f"turn_{turn}")
    return UserMessage(id=MessageId(f"u{turn}"), timestamp=1, turn_id=turn_id, role="user", content=content)


def assistant(turn: int, text: str, name: str = "a", *thinking: ThinkingPart) -> AssistantMessage:
    content: tuple[AssistantPart, ...] = (*thinking, TextPart(text=text)) if text else thinking
    return AssistantMessage(
        id=MessageId(f"{name}{turn}"), timestamp=1, turn_id=TurnId(f"turn_{turn}"), role="assistant", content=content
    )


def call(turn: int, call_id: str, parent: str = "a") -> ToolCallMessage:
    return ToolCallMessage(
        id=MessageId(f"call-{call_id}"),
        timestamp=1,
        turn_id=TurnId(f"turn_{turn}"),
        role="assistant",
        tool_call=ToolCall(id=call_id, name="Bash", input={}),
        parent_id=MessageId(f"{parent}{turn}"),
    )


def result(turn: int, call_id: str) -> ToolResultMessage:
    return ToolResultMessage(
        id=MessageId(f"result-{call_id}"),
        timestamp=1,
        turn_id=TurnId(f"turn_{turn}"),
        role="tool",
        tool_call_id=call_id,
        tool_result=ToolResult(id=call_id, name="Bash", output=TextOutput(value=f"of {call_id}")),
    )


def error(turn: int) -> ErrorMessage:
    return ErrorMessage(
        id=MessageId(f"e{turn}"), timestamp=1, turn_id=TurnId(f"turn_{turn}"), role="error", content="no", error_code="x"
    )


def conversation(
    history: list[Message], current: int, budget: int = PLENTY, system: str | None = None
) -> tuple[ConversationEntry, ...]:
    return build(history, TurnId(f"turn_{current}"), system=system, tools=(), budget=budget)


def asked(said: tuple[ConversationEntry, ...]) -> list[UserContent]:
    return [one.content for one in said if isinstance(one, UserEntry)]


def test_a_conversation_is_what_was_said_in_order() -> None:
    history: list[Message] = [user(1, "hi"), assistant(1, "hello"), user(2, "bye")]
    assert conversation(history, 2) == (UserEntry(content="hi"), AssistantEntry(text="hello"), UserEntry(content="bye"))


def test_calls_stand_with_their_message_and_all_results_follow_it() -> None:
    history: list[Message] = [
        user(1, "go"), call(1, "c1"), call(1, "c2"), assistant(1, "Let me see", "a", ThinkingPart(reasoning="hm")),
        result(1, "c2"), result(1, "c1"), assistant(1, "done", "b"),
    ]  # fmt: skip
    _, said, answered, done = conversation(history, 1)
    assert isinstance(said, AssistantEntry)
    assert [one.id for one in said.tool_calls] == ["c1", "c2"]
    assert said.thinking == (ThinkingPart(reasoning="hm"),)
    assert isinstance(answered, ToolResultsEntry)
    assert [(one.id, one.output.value) for one in answered.results] == [("c1", "of c1"), ("c2", "of c2")]
    assert done == AssistantEntry(text="done")


def test_a_call_without_a_result_is_told_to_be_lost() -> None:
    answered = conversation([user(1, "go"), call(1, "c1"), assistant(1, "")], 1)[-1]
    assert isinstance(answered, ToolResultsEntry)
    assert answered.results[0].output.type == "error-text"


def test_calls_of_a_step_that_was_never_finished_did_not_happen() -> None:
    assert conversation([user(1, "go"), call(1, "c1")], 1) == (UserEntry(content="go"),)


def test_errors_and_empty_answers_are_not_said() -> None:
    history: list[Message] = [user(1, "hi"), assistant(1, "", "a", ThinkingPart(reasoning="hm")), error(1), user(2, "again")]
    assert conversation(history, 2) == (UserEntry(content="hi"), UserEntry(content="again"))


def test_a_message_that_waits_behind_this_turn_is_left_out() -> None:
    history: list[Message] = [user(1, "first"), user(2, "second"), user(3, "third"), assistant(1, "one")]
    assert asked(conversation(history, 1)) == ["first"]
    assert conversation(history, 2) == (UserEntry(content="first"), AssistantEntry(text="one"), UserEntry(content="second"))


def test_messages_from_before_there_were_turns_come_first() -> None:
    old = msgspec.structs.replace(assistant(1, "old answer"), turn_id=None)
    history: list[Message] = [user(None, "old"), old, user(None, "older"), user(1, "new")]
    assert asked(conversation(history, 1)) == ["old", "older", "new"]
    assert asked(conversation(history, 1, budget=0)) == ["new"]
    assert asked(build(history, TurnId("turn_unknown"), system=None, tools=(), budget=PLENTY)) == ["old", "older", "new"]


def test_the_system_prompt_and_the_tools_take_their_part_of_the_budget() -> None:
    history: list[Message] = [user(1, "x" * 30), user(2, "y" * 30)]
    tool = ToolSpec(name="t", description="d" * 300, input_schema={})
    assert len(asked(conversation(history, 2, 25))) == 2
    assert len(asked(conversation(history, 2, 25, system="s" * 300))) == 1
    assert len(asked(build(history, TurnId("turn_2"), system=None, tools=(tool,), budget=25))) == 1


def test_pictures_and_files_weigh_something() -> None:
    picture = (TextPart(text="look"), ImagePart(data="AAAA", media_type="image/png"))
    file = (FilePart(data="A" * 40_000, media_type="application/pdf"),)
    for content in (picture, file):
        history: list[Message] = [user(1, content), user(2, "and now?")]
        assert asked(conversation(history, 2, 1_000)) == ["and now?"]
        assert asked(conversation(history, 2, 20_000)) == [content, "and now?"]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Message], int]:
    """Turns in a row, each with any number of model calls and tools; user messages may be stored early."""
    count = draw(st.integers(1, 6))
    history: list[Message] = []
    stored = 0
    for turn in range(1, count + 1):
        ahead = max(stored, turn, draw(st.integers(turn, count)))
        history += [user(one, f"u{one}" + "x" * draw(st.integers(0, 60))) for one in range(stored + 1, ahead + 1)]
        stored = ahead
        if turn == count:
            break
        for step in range(draw(st.integers(0, 3))):
            calls = [f"c{turn}.{step}.{n}" for n in range(draw(st.integers(0, 2)))]
            history += [call(turn, one, f"a{step}-") for one in calls]
            history.append(assistant(turn, draw(st.sampled_from(["", "ok", "y" * 90])), f"a{step}-"))
            history += [result(turn, one) for one in draw(st.permutations(calls))[: draw(st.integers(0, 2))]]
        history += [error(turn)] if draw(st.booleans()) else []
    return history, draw(st.integers(1, count))


@given(histories(), st.integers(-100, 400))
def test_the_window_policy_holds_for_every_history(given: tuple[list[Message], int], budget: int) -> None:
    history, current = given
    whole, kept = conversation(history, current), conversation(history, current, budget)
    # Whole exchanges are dropped, oldest first: what is kept is the end of the whole, and begins with a user's message.
    assert whole[len(whole) - len(kept) :] == kept
    assert isinstance(kept[0], UserEntry)
    assert [str(content)[:2] for content in asked(whole)] == [f"u{turn}" for turn in range(1, current + 1)]
    assert str(asked(kept)[-1]).startswith(f"u{current}")
    for before, said in zip((None, *kept), kept, strict=False):
        if isinstance(said, ToolResultsEntry):
            assert isinstance(before, AssistantEntry)
            assert [one.id for one in before.tool_calls] == [one.id for one in said.results]
    followed = [
        after
        for said, after in zip(kept, (*kept[1:], None), strict=True)
        if isinstance(said, AssistantEntry) and said.tool_calls
    ]
    assert all(isinstance(after, ToolResultsEntry) for after in followed)


@given(histories(), st.integers(0, 400), st.integers(0, 400))
def test_a_larger_budget_never_keeps_less(given: tuple[list[Message], int], one: int, other: int) -> None:
    history, current = given
    small, large = sorted((one, other))
    assert len(conversation(history, current, small)) <= len(conversation(history, current, large))


def test_what_is_referred_to_weighs_by_its_size() -> None:
    digest = f"sha256:{'0' * 64}"
    part = FilePart(data=f"attachment:{digest}", media_type="text/plain")
    history: list[Message] = [user(1, (part,)), user(2, "now")]

    def kept(size: int) -> int:
        return len(build(history, TurnId("turn_2"), system=None, tools=(), budget=1_000, sizes={digest: size}))

    assert (kept(1_000), kept(100_000)) == (2, 1)


@given(histories(), st.data())
def test_after_any_cut_every_provider_is_sent_calls_with_their_results_and_nothing_else(
    given: tuple[list[Message], int], data: st.DataObject
) -> None:
    history, _ = given
    last = data.draw(st.sampled_from(history))
    taken = set(keep_to(last.id)(history).taken)
    kept: list[Message] = [message for message in history if message.id not in taken]
    said = conversation([*kept, user(99, "and now?")], 99)
    prompt = Prompt(model="m", conversation=said, max_tokens=10)
    blocks: list[Any] = messages_body(prompt, FAILURES)["messages"]  # type: ignore[assignment]
    assert blocks[0]["role"] == "user"
    assert all(message["content"] for message in blocks)
    for before, after in pairwise([{"content": []}, *blocks, {"content": []}]):
        asked_for = [block["id"] for block in before["content"] if block["type"] == "tool_use"]
        assert [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"] == asked_for
    waiting: list[str] = []
    chat: list[Any] = chat_body(prompt, FAILURES)["messages"]  # type: ignore[assignment]
    for message in chat:
        if message["role"] == "tool":
            assert waiting.pop(0) == message["tool_call_id"]
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


def test_exchanges_that_were_told_before_make_the_same_prompt() -> None:
    exchanges = Exchanges()
    for number in range(1, 6):
        said = [message for turn in range(1, number + 1) for message in (question(turn), answered(turn))]
        for budget in (5, 30, 10_000):
            rules = {"system": "Be brief.", "tools": (), "budget": budget, "summary": "before"}
            kept = compose_weighed(said, TurnId(f"t{number}"), exchanges, **rules)  # type: ignore[arg-type]
            assert kept.told == compose(said, TurnId(f"t{number}"), **rules)  # type: ignore[arg-type]
            assert kept.weight == count_tokens([entry for entry, _ in kept.told])


def test_an_answer_that_was_regenerated_is_told_in_place_of_the_old_one() -> None:
    exchanges = Exchanges()
    other = structs.replace(answered(1), id=MessageId("other"))
    for answer in (answered(1), other):
        told = compose_weighed([question(1), answer], TurnId("t1"), exchanges, system=None, tools=(), budget=10_000).told
        assert told[-1][1] == answer.id
