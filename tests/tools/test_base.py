from agentvm.tools.base import (
    CallContext,
    Caller,
    CallProgress,
    CallTraits,
    Question,
    decline,
    error_result,
    plain_text,
    text_result,
)


def test_a_tool_that_only_reads_may_be_called_again_and_any_other_may_not() -> None:
    assert CallTraits.of("read").repeat == "safe"
    assert CallTraits.of("write").repeat == "never"
    assert CallTraits.of("destructive", repeat="keyed", timeout_ms=500) == CallTraits(
        effect="destructive", repeat="keyed", timeout_seconds=0.5
    )


def test_a_result_holds_no_terminal_escapes_and_no_half_characters() -> None:
    assert text_result("a\x1b[31mred\x00\x9b2J\r\n\tb").value == "a[31mred2J\r\n\tb"
    assert error_result("bad").is_error
    assert not text_result("good").is_error
    assert plain_text("\ud83d").encode()


async def test_without_anybody_to_ask_a_question_is_declined_and_progress_unheard() -> None:
    context = CallContext(key="turn_1/call_1", caller=Caller("acme", "alice"), deadline=0)
    context.progress(CallProgress(progress=1))
    assert (await decline(Question(mode="form", message="?"))).action == "decline"
