import base64
import json
import urllib.parse

from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.long_json import LONG_BYTES, folded, unfolded
from agentvm.model.secret import Secret
from agentvm.tools.redaction import Redaction

VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=0x24F), min_size=12, max_size=60)


@given(VALUES, st.binary(max_size=5), st.binary(max_size=5))
def test_a_secret_comes_back_in_no_form(value: str, before: bytes, after: bytes) -> None:
    redaction = Redaction({"ACME": Secret(value)})
    assert redaction.clean(before + value.encode() + after) == redaction.clean(before) + b"[secret ACME]" + redaction.clean(
        after
    )
    for body in (urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value), json.dumps({"echo": value})):
        assert b"[secret ACME]" in redaction.clean(body.encode())
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        assert b"[secret ACME]" in redaction.clean(encode(before + value.encode() + after))


ODD = st.text(st.characters(min_codepoint=1, max_codepoint=0x24F), min_size=5, max_size=20)


@given(ODD, ODD)
def test_a_secret_is_found_at_any_place_of_a_json_value(secret: str, around: str) -> None:
    redaction = Redaction({"ACME": Secret(secret)})
    for form in (secret, json.dumps(secret)[1:-1], urllib.parse.quote(secret, safe="")):
        text = f"{around}{form}{around}"
        cleaned = redaction.clean_text(text)
        assert "[secret ACME]" in cleaned
        value = {"a": [{"b": text}], text: [1, None], "n": 2}
        assert redaction.clean_value(value) == {"a": [{"b": cleaned}], cleaned: [1, None], "n": 2}


def test_a_secret_is_found_in_json_that_is_held_as_text() -> None:
    redaction, long = Redaction({"ACME": Secret("hunter22")}), "x" * LONG_BYTES
    for value, clean in (([long, "hunter22"], [long, "[secret ACME]"]), ([long, 1], [long, 1])):
        assert unfolded(redaction.clean_value(folded(value))) == clean


def test_a_value_without_a_secret_is_the_same_object() -> None:
    value = {"a": ["text", 1, {"b": None}]}
    assert Redaction({"ACME": Secret("hunter22")}).clean_value(value) is value


def test_other_text_stays_and_a_secret_too_short_to_tell_from_it_is_no_reason_to_change_it() -> None:
    body = b"a body with an a in it"
    assert Redaction({"A": Secret("a")}).clean(body) == body
    assert Redaction({}).clean(body) == body
