"""What is set aside of a conversation when a provider refuses it, and what a model is told in its place."""

import pytest

from agentvm.drivers.base import UserEntry
from agentvm.drivers.conversation import conversation_of
from agentvm.drivers.refusal import explain
from agentvm.errors import ProviderBadRequest
from agentvm.model.exchange import by_turn
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import (
    AssistantMessage,
    AssistantPart,
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
from agentvm.model.session import RefusedPart
from agentvm.runtime.context import Traced, compose
from agentvm.runtime.refusal import RETRIES_MAX, SetAside, decide, describe, without

PICTURE = ImagePart(data="aGk=", media_type="image/png", name="cat.png")
PDF = FilePart(data="cGRm", media_type="application/pdf")
ALL = 10**9


def asked(number: int, content: UserContent) -> Message:
    turn_id = TurnId(f"t{number}")
    return UserMessage(id=MessageId(f"u{number}"), timestamp=1, turn_id=turn_id, role="user", content=content)


def answer(number: int, text: str, *thinking: ThinkingPart) -> Message:
    content: tuple[AssistantPart, ...] = (*thinking, TextPart(text=text)) if text else thinking
    return AssistantMessage(
        id=MessageId(f"a{number}"), timestamp=1, turn_id=TurnId(f"t{number}"), role="assistant", content=content
    )


def used(number: int) -> list[Message]:
    call = ToolCall(id=f"c{number}", name="look", input={})
    result = ToolResult(id=f"c{number}", name="look", output=TextOutput(value="seen"))
    turn_id = TurnId(f"t{number}")
    return [
        ToolCallMessage(
            id=MessageId(f"call{number}"),
            timestamp=1,
            turn_id=turn_id,
            role="assistant",
            tool_call=call,
            parent_id=MessageId(f"a{number}"),
        ),
        ToolResultMessage(
            id=MessageId(f"r{number}"),
            timestamp=1,
            turn_id=turn_id,
            role="tool",
            tool_call_id=f"c{number}",
            tool_result=result,
        ),
    ]


HISTORY: list[Message] = [
    asked(1, (TextPart(text="what is this?"), PICTURE)),
    answer(1, "a cat"),
    asked(2, "look it up"),
    *used(2)[:1],
    answer(2, ""),
    *used(2)[1:],
    asked(3, (TextPart(text="and this?"), PDF, PICTURE)),
    answer(3, "a file"),
    asked(4, "and now?"),
]
U4 = MessageId("u4")


def conversation(history: list[Message], current: int) -> list[Traced]:
    return compose(history, TurnId(f"t{current}"), system=None, tools=(), budget=ALL)


def refused(said: str, place: tuple[int, int | None] | None = None, reason: str = "") -> ProviderBadRequest:
    error = ProviderBadRequest(f"p refused the request (HTTP 400): {said}")
    error.provider_message, error.reason = said, reason
    explain(error, ())
    if place is not None:
        error.place, error.kind = place, error.kind or "unknown"
    return error


def part(message_id: str, number: int | None = None) -> RefusedPart:
    return RefusedPart(MessageId(message_id), number)


def test_a_part_that_is_named_is_set_aside_and_the_model_asked_again() -> None:
    told = conversation(HISTORY, 4)
    assert decide(refused("image too large", (0, 1)), told, U4, (), 0) == SetAside((part("u1", 1),), again=True)
    # So are tools: the message that asked for them goes, with what came of it.
    number = next(place for place, (_, message_id) in enumerate(told) if message_id == "a2")
    assert decide(refused("bad id", (number + 1, None)), told, U4, (), 0) == SetAside((part("a2"),), again=True)


def test_what_the_user_has_just_sent_fails_the_turn_which_says_what_it_was() -> None:
    told = conversation(HISTORY[:7], 3)
    current = MessageId("u3")
    assert decide(refused("image too large", (len(told) - 1, 2)), told, current, (), 0) == SetAside(
        (part("u3", 2),), again=False
    )
    # Without a name it is what is no text of it.
    aside = decide(refused("Could not process image"), told, current, (), 0)
    assert aside == SetAside((part("u3", 1), part("u3", 2)), again=False)
    assert describe(aside.parts, told) == "the file application/pdf, the image cat.png"
    text = conversation([asked(1, "bad")], 1)
    aside = decide(refused("text is not valid", (0, None)), text, MessageId("u1"), (), 0)
    assert aside == SetAside((part("u1"),), again=False)
    assert describe(aside.parts, text) == "the message"


def test_a_refusal_of_a_picture_that_is_not_named_is_about_the_newest_and_then_about_all() -> None:
    told, error = conversation(HISTORY, 4), refused("Could not process image")
    newest = (part("u3", 1), part("u3", 2))
    assert decide(error, told, U4, (), 0) == SetAside(newest, again=True, certain=False)
    assert decide(error, told, U4, newest, 1) == SetAside((part("u1", 1),), again=True, certain=False)
    assert decide(error, told, U4, (*newest, part("u1", 1)), 1) is None


def test_a_refusal_of_tools_or_of_who_knows_what_is_about_what_is_no_plain_text() -> None:
    told = conversation(HISTORY, 4)
    assert decide(refused("tool_use without tool_result"), told, U4, (), 0) == SetAside(
        (part("a2"),), again=True, certain=False
    )
    aside = decide(refused("roles must alternate"), told, U4, (), 0)
    everything = (part("u1", 1), part("a2"), part("u3", 1), part("u3", 2))
    assert aside == SetAside(everything, again=True, certain=False)
    thought = [asked(1, "a"), answer(1, "b", ThinkingPart(reasoning="hm", signature="s")), asked(4, "c")]
    aside = decide(refused("Invalid signature"), conversation(thought, 4), U4, (), 0)
    assert aside == SetAside((part("a1"),), again=True, certain=False)
    # Where all is plain text nothing that was said can be to blame.
    assert decide(refused("roles must alternate"), conversation([asked(1, "a"), asked(4, "b")], 4), U4, (), 0) is None


@pytest.mark.parametrize("said", ["prompt is too long: 9 tokens > 8", "max_tokens: 9 > 8", ""])
def test_nothing_is_set_aside_for_what_is_wrong_with_the_whole_request(said: str) -> None:
    assert decide(refused(said), conversation(HISTORY, 4), U4, (), 0) is None


def test_nobody_asks_again_for_ever() -> None:
    told = conversation(HISTORY, 4)
    assert decide(refused("image too large", (0, 1)), told, U4, (), RETRIES_MAX) is None
    # What the user has just sent can always be set aside.
    sent = conversation(HISTORY[:7], 3)
    assert decide(refused("no", (len(sent) - 1, 2)), sent, MessageId("u3"), (), RETRIES_MAX) is not None


def test_what_was_refused_before_or_is_in_no_message_changes_nothing() -> None:
    told = conversation(HISTORY, 4)
    assert decide(refused("no", (0, 1)), told, U4, (part("u1", 1),), 0) is None
    summed = compose(HISTORY[-1:], TurnId("t4"), system=None, tools=(), budget=ALL, summary="before")
    assert decide(refused("no", (0, None)), summed, U4, (), 0) is None
    assert decide(refused("no", (99, None)), [(UserEntry(content="x"), U4)], U4, (), 0) is None


def test_a_note_stands_for_what_was_refused() -> None:
    kept = without(HISTORY, [part("u1", 1), part("a2"), part("u3", 1), part("u4")])
    said = [str(each) for exchange in by_turn(kept) for each in conversation_of(exchange)]
    assert "[image cat.png: refused by the provider]" in said[0]
    assert "what is this?" in said[0]
    assert "[what was done here: refused by the provider]" in said[3]
    assert not any("look'" in each or "seen" in each for each in said)
    assert "[file application/pdf: refused by the provider]" in said[4]
    assert "cat.png" in said[4]
    assert "[a message: refused by the provider]" in said[6]
    assert without(HISTORY, ()) == HISTORY


def test_all_of_a_message_with_parts_can_be_refused() -> None:
    (kept,) = without([HISTORY[0]], [part("u1")])
    assert isinstance(kept, UserMessage)
    assert kept.content == (
        TextPart(text="[text: refused by the provider]"),
        TextPart(text="[image cat.png: refused by the provider]"),
    )
