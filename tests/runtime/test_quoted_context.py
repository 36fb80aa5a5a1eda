from tests.conformance.memories import memory

from agentvm.drivers.base import AssistantEntry, UserEntry
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import TextPart, UserMessage
from agentvm.runtime.context import Composed, Traced
from agentvm.runtime.quoted_context import find_question, insert, quote

FIRST, SECOND = MessageId("m1"), MessageId("m2")
TOLD: list[Traced] = [(UserEntry(content="a"), FIRST), (AssistantEntry(text="b"), None), (UserEntry(content="c"), SECOND)]
COMPOSED = Composed([*TOLD], 9, 30)


def test_it_stands_right_before_the_question_and_weighs() -> None:
    quoted = quote([memory(1, "Likes tea")])
    composed = insert(COMPOSED, quoted, SECOND)
    assert composed.told[2:4] == [(entry, None) for entry in quoted]
    assert composed.told[4] == COMPOSED.told[2]
    assert (composed.weight or 0) > 9
    assert (composed.most or 0) > 30
    assert insert(COMPOSED._replace(weight=None, most=None), quoted, SECOND).weight is None


def test_without_anything_to_tell_the_conversation_stays_as_it_is() -> None:
    assert quote([]) == ()
    assert insert(COMPOSED, (), SECOND) is COMPOSED


def test_the_question_is_the_text_of_the_users_message() -> None:
    plain = UserMessage(id=FIRST, timestamp=1, turn_id=TurnId("t"), role="user", content="hi")
    parts = UserMessage(
        id=SECOND, timestamp=1, turn_id=TurnId("t"), role="user", content=(TextPart(text="a"), TextPart(text="b"))
    )
    assert find_question([plain, parts], FIRST) == "hi"
    assert find_question([plain, parts], SECOND) == "a\nb"
    assert find_question([plain], MessageId("none")) == ""
