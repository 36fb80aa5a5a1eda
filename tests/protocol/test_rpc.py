import json
from typing import Any

import pytest

from agentvm.protocol.codec import decode_inbound
from agentvm.protocol.rpc import (
    BATCH_MAX,
    Rpc,
    RpcCall,
    RpcIgnored,
    RpcInvalid,
    RpcProblem,
    decode_batch,
    decode_rpc,
    encode_problem,
    encode_result,
    is_batch,
)


def read(**members: object) -> Rpc:
    return decode_rpc(decode_inbound(json.dumps({"jsonrpc": "2.0", **members})))


@pytest.mark.parametrize("request_id", [1, -3, 0, "abc", 2**53])
def test_a_request_has_a_text_or_an_integer_as_its_id(request_id: object) -> None:
    call = read(id=request_id, method="image.list", params={"a": 1})
    assert isinstance(call, RpcCall)
    assert (call.method, call.id, json.loads(bytes(call.params))) == ("image.list", request_id, {"a": 1})


@pytest.mark.parametrize("request_id", [None, "", 1.5, 2**60, ["odd"], "x" * 5_000])
def test_another_id_is_refused_and_not_silence(request_id: object) -> None:
    invalid = read(id=request_id, method="image.list")
    assert isinstance(invalid, RpcInvalid)
    assert (invalid.id, invalid.problem.code) == (None, -32600)


def test_a_request_without_params_has_none_and_a_notification_has_no_id() -> None:
    notification = read(method="auth")
    assert isinstance(notification, RpcCall)
    assert (notification.id, bytes(notification.params)) == (None, b"{}")


@pytest.mark.parametrize("params", ["text", 5, [1]])
def test_params_that_are_no_object_are_refused_under_the_id(params: object) -> None:
    invalid = read(id=4, method="image.list", params=params)
    assert isinstance(invalid, RpcInvalid)
    assert (invalid.id, invalid.problem.code) == (4, -32602)


def test_a_response_is_not_answered_and_an_empty_method_is() -> None:
    assert read(id=7, result={}) == RpcIgnored()
    assert isinstance(read(id=9, method=""), RpcInvalid)


def test_a_batch_is_its_elements_and_has_a_bound() -> None:
    text = json.dumps([{"jsonrpc": "2.0", "id": 20, "method": "a"}, 5])
    assert is_batch(text)
    assert not is_batch("{}")
    first, second = decode_batch(text)
    assert isinstance(first, RpcCall)
    assert isinstance(second, RpcInvalid)
    (too_many,) = decode_batch(json.dumps([{}] * (BATCH_MAX + 1)))
    assert isinstance(too_many, RpcInvalid)
    assert decode_batch("[]") == decode_batch("[{") == []


def test_responses_have_what_the_clients_parser_needs() -> None:
    result: dict[str, Any] = json.loads(encode_result(3, None).bare)
    assert result == {"jsonrpc": "2.0", "id": 3, "result": None}
    error: dict[str, Any] = json.loads(encode_problem(None, RpcProblem(404, "gone")).bare)
    assert error == {"jsonrpc": "2.0", "id": None, "error": {"code": 404, "message": "gone"}}
