from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.secret import Secret
from agentvm.observability.log_entry import FACTS_MAX, TEXT_CHARACTERS_MAX, LogEntry, make_entry, texts_of
from agentvm.observability.redact import Redactor


def entry(method: str = "info", /, **facts: Any) -> LogEntry:
    return make_entry(7, 1_000, "agentvm.tests", method, {"event": "seen", **facts}, Redactor([Secret("sk-hidden")]))


def test_ids_stand_by_themselves_and_everything_else_is_a_fact() -> None:
    made = entry("warning", tenant_id="t1", turn_id="u1", agent_id="a1", user_id=None, count=3)
    assert msgspec.json.decode(msgspec.json.encode(made)) == {
        "number": 7,
        "at": 1_000,
        "level": "warning",
        "event": "seen",
        "logger": "agentvm.tests",
        "tenantId": "t1",
        "turnId": "u1",
        "facts": {"agentId": "a1", "count": 3},
    }


def test_an_exception_is_kept_without_its_text() -> None:
    try:
        raise KeyError("what the user said")
    except KeyError:
        made = entry("exception", exc_info=True)
    assert made.level == "error"
    assert made.raised is not None
    assert made.raised.kind == "KeyError"
    assert made.raised.places[-1].endswith(" test_an_exception_is_kept_without_its_text")
    assert b"the user said" not in msgspec.json.encode(made)
    given = entry("error", exc_info=ValueError("what the user said"))
    assert given.raised is not None
    assert given.raised.kind == "ValueError"
    assert entry("error", exc_info=False).raised is None


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Image 'my diary' does not exist", "Image '…' does not exist"),
        ('the provider\'s "my diary" is not known', "the provider's '…' is not known"),
        (r"Title 'it\'s a diary' is long", "Title '…' is long"),
        ("disk I/O error", "disk I/O error"),
    ],
)
def test_what_an_error_quotes_is_left_out(said: str, kept: str) -> None:
    assert entry(error=said, why={"said": [said]}).facts == {"error": kept, "why": {"said": [kept]}}


@pytest.mark.parametrize("code", ["provider_overloaded", "not_found", "invalid_input", "internal_error"])
def test_the_words_of_an_error_with_a_code_are_left_out(code: str) -> None:
    assert entry(code=code, error="it said: my diary").facts == {"code": code}


def test_the_words_of_the_store_are_kept() -> None:
    assert entry(code="store_failed", error="disk I/O error").facts == {"code": "store_failed", "error": "disk I/O error"}


def test_secrets_are_taken_out() -> None:
    assert entry(error="sk-hidden is wrong", api_key="x").facts == {"error": "*** is wrong", "apiKey": "***"}


def test_everything_is_bounded() -> None:
    deep: object = "end"
    for _ in range(50):
        deep = {"x": [deep]}
    made = entry(long="x" * 100_000, deep=deep, big=2**80, half="\ud800", **{f"f{number}": number for number in range(100)})
    assert len(made.facts) == FACTS_MAX
    assert made.facts["big"] == str(2**80)
    assert len(msgspec.json.encode(made)) < 3 * TEXT_CHARACTERS_MAX


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.dictionaries(st.text(min_size=1), values))
def test_whatever_is_logged_becomes_a_line_that_can_be_read_again(facts: dict[str, Any]) -> None:
    made = make_entry(1, 2, "l", "info", facts, Redactor())
    line = msgspec.json.encode(made)
    assert b"\n" not in line
    assert msgspec.json.decode(line, type=LogEntry).number == 1
    assert all(isinstance(text, str) for text in texts_of(made))
