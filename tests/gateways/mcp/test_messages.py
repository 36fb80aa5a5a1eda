import base64
from typing import Any

import pytest
from tests.gateways.mcp.fixtures import handshake, stateless

from agentvm.gateways.mcp.errors import MessageRefused
from agentvm.gateways.mcp.messages import (
    CAPABILITIES_MEMBER,
    HANDSHAKE,
    METHOD_HEADER,
    NAME_HEADER,
    VERSION_HEADER,
    VERSION_MEMBER,
    McpMessage,
    call_of,
    read,
)


def message(body: dict[str, Any]) -> McpMessage:
    return read(body, McpMessage, "body")


def test_each_message_tells_its_era_by_itself() -> None:
    body, headers = stateless("tools/list")
    modern = call_of(message(body), headers)
    assert modern is not None
    assert modern.is_stateless
    result = modern.result({"tools": []}, keeps_ms=5)["result"]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 5, "private")
    for version in ({}, *({VERSION_HEADER: version} for version in HANDSHAKE)):
        old = call_of(message(handshake("tools/list")), version)
        assert old is not None
        assert not old.is_stateless
        assert old.result({"tools": []}, keeps_ms=5)["result"] == {"tools": []}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({VERSION_HEADER: None}, -32020),
        ({VERSION_HEADER: "2030-01-01"}, -32020),
        ({METHOD_HEADER: "tools/list"}, -32020),
        ({METHOD_HEADER: None}, -32020),
        ({NAME_HEADER: "ask_other"}, -32020),
        ({NAME_HEADER: "=?base64?####?="}, -32020),
        ({NAME_HEADER: "=?base64?é?="}, -32020),
        ({NAME_HEADER: None}, -32020),
    ],
)
def test_a_header_that_is_not_what_the_body_says_is_refused(changes: dict[str, str | None], code: int) -> None:
    body, headers = stateless("tools/call", name="ask_default")
    changed = {name: value for name, value in {**headers, **changes}.items() if value is not None}
    with pytest.raises(MessageRefused) as refused:
        call_of(message(body), changed)
    assert (refused.value.code, refused.value.status) == (code, 400)


def test_a_header_may_be_in_base64() -> None:
    body, headers = stateless("prompts/get", name="提示")
    headers[NAME_HEADER] = f"=?base64?{base64.b64encode('提示'.encode()).decode()}?="
    assert call_of(message(body), headers) is not None


def test_spaces_around_a_header_are_no_part_of_it() -> None:
    body, headers = stateless("prompts/get", name="hello")
    assert call_of(message(body), {name: f" \t{value} " for name, value in headers.items()}) is not None


def test_a_version_that_differs_between_header_and_body_is_a_mismatch_whichever_of_them_is_known() -> None:
    body, headers = stateless("tools/list")
    body["params"]["_meta"][VERSION_MEMBER] = "2030-01-01"
    with pytest.raises(MessageRefused) as refused:
        call_of(message(body), headers)
    assert refused.value.code == -32020


def test_an_unknown_version_is_told_which_ones_are_spoken() -> None:
    body, headers = stateless("tools/list")
    body["params"]["_meta"][VERSION_MEMBER] = headers[VERSION_HEADER] = "2030-01-01"
    with pytest.raises(MessageRefused) as refused:
        call_of(message(body), headers)
    assert refused.value.code == -32022
    assert refused.value.data == {"supported": ["2026-07-28", *reversed(HANDSHAKE)], "requested": "2030-01-01"}
    body["params"]["_meta"][VERSION_MEMBER] = headers[VERSION_HEADER] = "2026-07-28"
    del body["params"]["_meta"][CAPABILITIES_MEMBER]
    with pytest.raises(MessageRefused, match="clientCapabilities"):
        call_of(message(body), headers)


@pytest.mark.parametrize("body", [{"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "id": None, "method": "ping"}])
def test_a_message_that_is_neither_request_nor_notification_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(MessageRefused) as refused:
        call_of(message(body), {})
    assert refused.value.code == -32600


@pytest.mark.parametrize("body", [{"method": "notifications/initialized"}, {"id": 1, "result": {}}])
def test_notifications_and_answers_want_no_answer(body: dict[str, Any]) -> None:
    assert call_of(message({"jsonrpc": "2.0", **body}), {}) is None


@pytest.mark.parametrize(
    ("meta", "token"), [({"progressToken": "a"}, "a"), ({"progressToken": 7}, 7), ({"progressToken": []}, None)]
)
def test_a_progress_token_is_a_text_or_a_number(meta: dict[str, Any], token: object) -> None:
    call = call_of(message(handshake("tools/call", _meta=meta)), {})
    assert call is not None
    assert call.progress_token == token
