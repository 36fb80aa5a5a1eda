import base64
import json
import urllib.parse

from hypothesis import given
from hypothesis import strategies as st

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


def test_other_text_stays_and_a_secret_too_short_to_tell_from_it_is_no_reason_to_change_it() -> None:
    body = b"a body with an a in it"
    assert Redaction({"A": Secret("a")}).clean(body) == body
    assert Redaction({}).clean(body) == body
