from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.records import EVERY_KIND

from agentvm.model.ids import MessageId
from agentvm.model.message import Message, TextOutput, ToolResult, ToolResultMessage, UserMessage
from agentvm.model.usage import estimate_tokens
from agentvm.sessions.transcript import TOOL_RESULT_MAX_BYTES, shorten, take, transcribe


def said(text: str) -> list[Message]:
    return [UserMessage(id=MessageId("m"), timestamp=1, role="user", content=text)]


def test_everything_that_was_said_and_done_is_in_it_but_what_was_thought() -> None:
    text = transcribe(EVERY_KIND)
    for part in ("User: 北京", "see\n[image]\n[file]", "Assistant: yes", 'Assistant calls run: {"deep":', "run answers: no"):
        assert part in text
    assert "The answer failed: timeout" in text
    assert "hm" not in text


def test_of_a_long_result_the_beginning_and_the_end_are_kept() -> None:
    output = TextOutput(value=f"begin {'x' * 10_000} end")
    result = ToolResult(id="c", name="run", output=output)
    message = ToolResultMessage(id=MessageId("m"), timestamp=1, role="tool", tool_call_id="c", tool_result=result)
    text = transcribe([message])
    assert text.startswith("run answers: begin")
    assert text.endswith("end")
    assert len(text) < TOOL_RESULT_MAX_BYTES + 50


def test_as_many_exchanges_are_taken_as_there_is_room_for_and_one_at_least() -> None:
    exchanges = [said("one"), said("two"), said("x" * 900), said("four")]
    number, text = take(exchanges, 50)
    assert (number, text) == (2, "User: one\n\nUser: two")
    assert take(exchanges, 10_000)[0] == 4
    number, text = take(exchanges[2:], 50)
    assert number == 1
    assert estimate_tokens(text) <= 51


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.integers(0, 40))
def test_what_is_shortened_fits_and_what_fits_stays(text: str, most: int) -> None:
    short = shorten(text, most)
    assert short == text if len(text.encode()) <= most else len(short.encode()) <= max(most, 8)
