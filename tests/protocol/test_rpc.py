import json

import msgspec
import pytest

from agentvm.protocol.codec import ID_MAX
from agentvm.protocol.rpc import METHOD_NOT_FOUND_CODE, refuse_rpc


@pytest.mark.parametrize(("raw", "request_id"), [(b"1", 1), (b'"a"', "a"), (b"1.5", 1.5), (b"null", None), (b"{}", None)])
def test_the_answer_names_the_request_and_what_is_spoken_here(raw: bytes, request_id: object) -> None:
    answer = json.loads(refuse_rpc(msgspec.Raw(raw)).bare)
    assert (answer["id"], answer["error"]["code"]) == (request_id, METHOD_NOT_FOUND_CODE)
    assert "_request" in answer["error"]["message"]


def test_an_id_that_is_too_long_to_repeat_is_left_out() -> None:
    assert json.loads(refuse_rpc(msgspec.Raw(b'"' + b"x" * ID_MAX + b'"')).bare)["id"] is None
