from agentvm.channels.words import EN, INPUT_MAX, ZH, answer_word, error_text, wait_text, words_for
from agentvm.errors import SessionNotFound
from agentvm.gateways.turn_parts import CallWaits
from agentvm.model.wait import WaitId


def test_a_channel_speaks_the_language_of_the_message() -> None:
    assert (words_for("hello"), words_for("你好 hello")) == (EN, ZH)
    assert [answer_word(text) for text in (" Y ", "好的。", "No!", "拒绝", "yes please", "")] == [
        "/approve", "/approve", "/deny", "/deny", None, None,
    ]  # fmt: skip
    assert error_text(EN, SessionNotFound("s")) == "The answer failed: Session not found: s (session_not_found)"


def test_a_call_is_shown_to_the_one_who_approves_it() -> None:
    call = CallWaits("c", "send", {"text": "a```b" + "x" * 2000}, "approval", WaitId("w"), "f")
    text = wait_text(EN, call)
    assert "**send**" in text
    assert text.count("```") == 2
    assert len(text) < INPUT_MAX + 200
