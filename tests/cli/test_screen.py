import pytest

from agentvm.cli.chat_session import SessionChoice
from agentvm.cli.markdown import Markdown
from agentvm.cli.screen import Screen, clean, one_line
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId
from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    Message,
    TextOutput,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.model.session import Session
from agentvm.protocol.link import WireEvent

USAGE = {"inputTokens": 3, "outputTokens": 2}


def show(screen: Screen, *events: tuple[str, dict[str, object]]) -> None:
    for kind, data in events:
        screen.show(WireEvent(type=kind, data=data))


def end(**data: object) -> tuple[str, dict[str, object]]:
    return "turn_response", {"outcome": "completed", "usage": USAGE, "duration": 1234, "model": "m", **data}


def listed(label: str, *, current: bool = False) -> SessionChoice:
    session_id, image_id, container_id = SessionId("s"), ImageId("i"), ContainerId("c")
    session = Session(
        session_id=session_id, image_id=image_id, container_id=container_id, title=None, created_at=0, updated_at=0
    )
    return SessionChoice(session=session, label=label, current=current)


def test_an_answer_goes_to_stdout_and_what_it_cost_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen(live=False), ("turn_request", {}), ("text_delta", {"text": "Hel"}), ("text_delta", {"text": "lo"}), end())
    assert capsys.readouterr() == ("Hello\n", "(3 tokens in, 2 out · 1.2 s · m)\n")


def test_a_tool_call_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(live=False)
    call: dict[str, object] = {"toolCallId": "c1", "toolName": "calculator", "input": {"expression": "6*7"}}
    result: dict[str, object] = {"toolId": "c1", "toolName": "calculator", "result": "4\n2"}
    show(screen, ("text_delta", {"text": "Let me see."}), ("tool_use_stop", call), ("tool_completed", result))
    assert capsys.readouterr() == ("Let me see.\n", '[calculator] {"expression":"6*7"} → 4 2\n')
    show(screen, ("tool_failed", {"toolId": "c2", "toolName": "clock", "error": "no such zone"}))
    assert capsys.readouterr().err == "[clock] → failed: no such zone\n"
    assert not screen.failed


def test_the_passages_that_an_answer_cites_are_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    cite = "resource://knowledge/docs@1.0.0#" + 190 * "a" + ":0-61"
    said: dict[str, object] = {"content": "Seven days [1].", "citations": [{"n": 1, "cite": cite}]}
    show(Screen(live=False), ("text_delta", {"text": "Seven days [1]."}), ("assistant_message", said), end())
    assert capsys.readouterr() == ("Seven days [1].\n", f"[1] {cite}\n(3 tokens in, 2 out · 1.2 s · m)\n")


def test_a_failed_turn_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(live=False)
    show(screen, ("error_occurred", {"message": "overloaded"}), end(usage={}, model=None))
    assert screen.failed
    assert capsys.readouterr().err == "Error: overloaded\n(1.2 s)\n"


def test_an_interrupted_turn_and_estimated_usage_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen(live=False), end(outcome="interrupted", usage={**USAGE, "estimated": True}))
    assert capsys.readouterr().err == "(interrupted · about 3 tokens in, 2 out · 1.2 s · m)\n"


def test_a_person_sees_what_is_going_on_until_the_answer_begins(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen(live=True), ("conversation_queued", {}), ("message_start", {}), ("text_delta", {"text": "Hi"}))
    assert capsys.readouterr().out == "waiting for the previous message…\r\x1b[Kthinking…\r\x1b[KHi"


def test_a_person_sees_that_another_provider_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen(live=True), ("provider_fallback", {"from": "a/m", "to": "b/\x1b[2Jm"}), ("text_delta", {"text": "Hi"}))
    assert capsys.readouterr().out == "a/m does not answer; switching to b/[2Jm…\r\x1b[KHi"


def test_errors_are_red_and_notices_dim(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(live=True, color=True)
    screen.error("broken")
    screen.notice("by the way")
    assert capsys.readouterr().err == "\x1b[31mError: broken\x1b[0m\n\x1b[2mby the way\x1b[0m\n"


def test_a_model_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show(Screen(live=True, color=True), ("text_delta", {"text": "a\x1b[2Jb\x07\x9b\r\n\tc"}))
    assert capsys.readouterr().out == "a[2Jb\n\tc"
    assert clean("\x00é字\x7f") == "é字"


def test_a_person_sees_markdown_in_answers_and_in_the_history(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(live=True, markdown=Markdown(lambda: 20, styled=True))
    show(screen, ("message_start", {}), ("text_delta", {"text": "**so\x1b"}), ("text_delta", {"text": "me** words"}), end())
    assert capsys.readouterr().out.endswith("\x1b[1msome\x1b[0m words\n")
    answer = AssistantMessage(
        id=MessageId("m"), timestamp=0, role="assistant", content=(TextPart(text="*so* it is said today"),)
    )
    screen.history([answer, answer])
    assert capsys.readouterr().out == "\x1b[3mso\x1b[0m it is said today\n" * 2


def test_a_tool_call_in_the_middle_of_a_word_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(live=True, markdown=Markdown(lambda: 20, styled=True))
    failed: tuple[str, dict[str, object]] = ("tool_failed", {"toolId": "c", "toolName": "clock", "error": "no such zone"})
    show(screen, ("text_delta", {"text": "Let me **see"}), failed, ("text_delta", {"text": "It is"}), end())
    assert capsys.readouterr().out == "Let me **see\nIt is\n"


def test_notices_for_people_are_wrapped_at_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    Screen(live=True, markdown=Markdown(lambda: 12, styled=True)).notice("one two three")
    assert capsys.readouterr().err == "one two\nthree\n"


def test_a_line_is_shortened() -> None:
    assert one_line("a\n b\tc") == "a b c"
    assert one_line("abcdef", 4) == "abc…"


def test_the_list_of_sessions_is_numbered(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(live=False).sessions([listed("Dragons", current=True), listed("")])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("*  1  ")
    assert first.endswith("  Dragons")
    assert second.startswith("   2  ")
    assert second.endswith("  (empty)")


def test_a_history_reads_like_the_chat_did(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = MessageId("m1"), MessageId("m2")
    call = ToolCall(id="c1", name="calculator", input={"expression": "6*7"})
    result = ToolResult(id="c1", name="calculator", output=TextOutput(value="42"))
    said: list[Message] = [
        UserMessage(id=first, timestamp=0, role="user", content=(TextPart(text="6 times 7?"),)),
        AssistantMessage(id=second, timestamp=0, role="assistant", content=(ThinkingPart(reasoning="hm"),)),
        ToolCallMessage(id=first, timestamp=0, role="assistant", tool_call=call, parent_id=second),
        ToolResultMessage(id=first, timestamp=0, role="tool", tool_call_id="c1", tool_result=result),
        AssistantMessage(id=second, timestamp=0, role="assistant", content=(TextPart(text="It is 42."),)),
        ErrorMessage(id=first, timestamp=0, role="error", content="overloaded", error_code="overloaded"),
    ]
    screen = Screen(live=False)
    screen.history(said)
    assert capsys.readouterr() == (
        "1> 6 times 7?\nIt is 42.\n",
        '[calculator] {"expression":"6*7"} → 42\nError: overloaded\n',
    )
    assert not screen.failed
    screen.history(())
    assert capsys.readouterr().err == "The session has no messages.\n"
