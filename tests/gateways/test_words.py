from agentvm.errors import SessionNotFound
from agentvm.gateways.turn_parts import CallWaits
from agentvm.gateways.words import EN, INPUT_MAX, ZH, answer_word, error_text, held_text, is_asked, wait_text, words_for
from agentvm.model.wait import Question, WaitId


def test_a_chat_is_told_in_the_language_of_the_message() -> None:
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


def test_a_wait_is_a_question_to_the_user_or_a_matter_of_somebody_else() -> None:
    form, page = Question(mode="form", message="Which?"), Question(mode="url", message="Sign in", url="https://a.example/in")
    asked, visited = (CallWaits("c", "t", {}, "elicitation", WaitId("w"), "f", "why", {"q": one}) for one in (form, page))
    approval = CallWaits("c", "send", {}, "approval", WaitId("w"), "f", "it writes")
    assert [is_asked(part) for part in (asked, visited, approval)] == [True, False, False]
    assert held_text(EN, visited) == "(Waits for an approval of t. https://a.example/in)"
    assert held_text(ZH, approval) == "（等待批准 send。it writes）"
