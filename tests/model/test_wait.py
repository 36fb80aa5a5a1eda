from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.wait import DECISIONS, AnswerDecision, WaitKind, fingerprint_of

values = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.booleans() | st.none(), max_size=4)


def test_every_kind_of_wait_can_be_declined() -> None:
    assert set(DECISIONS) == set(get_args(WaitKind))
    for decisions in DECISIONS.values():
        assert "deny" in decisions
        assert set(decisions) <= set(get_args(AnswerDecision))


@given(values)
def test_a_fingerprint_does_not_depend_on_the_order_of_the_input(value: dict[str, object]) -> None:
    backwards = dict(reversed(value.items()))
    assert fingerprint_of("tool", "1", value) == fingerprint_of("tool", "1", backwards)


@given(values, values)
def test_another_input_has_another_fingerprint(one: dict[str, object], other: dict[str, object]) -> None:
    # In JSON, unlike in Python, 1 and true are not the same.
    same = sorted(map(repr, one.items())) == sorted(map(repr, other.items()))
    assert (fingerprint_of("tool", "1", one) == fingerprint_of("tool", "1", other)) is same


def test_another_tool_or_version_has_another_fingerprint() -> None:
    assert len({fingerprint_of(tool, version, {}) for tool in ("a", "b") for version in ("", "1.0.0")}) == 4
