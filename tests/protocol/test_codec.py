import json
import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.fixtures import HARD_TEXTS

from agentvm.errors import InvalidInput
from agentvm.model.ids import ImageId
from agentvm.operations.container import ContainerGetReply
from agentvm.operations.image import ImageRun
from agentvm.operations.table import CODEC
from agentvm.protocol import codec
from agentvm.protocol.codec import (
    HEADERS_MAX_BYTES,
    ID_MAX,
    MENDED_MAX,
    Frame,
    decode_event,
    decode_headers,
    decode_id,
    decode_inbound,
    decode_reply,
    decode_request_id,
    decode_type,
    encode,
    is_present,
)
from agentvm.protocol.connection import PeerConnection


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@given(st.recursive(st.floats() | st.text(st.characters(exclude_categories=["Cs"])) | st.integers(), st.lists))
def test_whatever_is_encoded_is_strict_json(value: object) -> None:
    json.loads(encode(value), parse_constant=refuse_constant)


def test_not_a_number_becomes_null() -> None:
    assert encode({"a": float("nan"), "b": float("inf")}) == '{"a":null,"b":null}'


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_hard_texts_come_through_both_forms(text: str) -> None:
    frame = Frame(encode({"text": text}))
    assert json.loads(frame.bare) == {"text": text}
    assert json.loads(frame.quoted) == frame.bare
    assert frame.quoted is frame.quoted


def test_an_inbound_frame_keeps_only_what_means_something() -> None:
    frame = decode_inbound('{"type":"x","data":{"a":1},"source":"agent","__ack":null,"unknown":[]}')
    assert (decode_type(frame.type), bytes(frame.data), is_present(frame.ack)) == ("x", b'{"a":1}', False)


@pytest.mark.parametrize("end", ["_request", "_response", "x"])
def test_of_a_very_long_type_the_beginning_and_the_end_are_read(end: str) -> None:
    read = decode_type(msgspec.Raw(f'"{"kind" * 1_000_000}{end}"'.encode()))
    assert read is not None
    assert len(read) <= ID_MAX + 10
    assert read.startswith("kind" * (ID_MAX // 4))
    assert read.endswith(end)


@pytest.mark.parametrize("given", ["5", "[]", "{}", "[" + "0," * 2_000 + "0]"])
def test_a_type_that_is_no_text_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match="Invalid frame: type must be a string or null"):
        decode_type(msgspec.Raw(given.encode()))


@pytest.mark.parametrize(
    "given", ["null", "5", "[]", '{"a":"b"}', '"' + "x" * 201 + '"', '"' + "\\u0078" * 201 + '"', '"\\ud800"']
)
def test_what_cannot_name_anything_is_no_id(given: str) -> None:
    assert decode_id(msgspec.Raw(given.encode())) is None


def test_an_id_may_be_as_long_as_allowed_however_it_is_written() -> None:
    assert decode_id(msgspec.Raw(b'"' + b"\\u0078" * ID_MAX + b'"')) == "x" * ID_MAX


def test_headers_are_few_texts() -> None:
    assert decode_headers(msgspec.Raw(b'{"a": "b", "c": 5, "d": []}')) == {"a": "b"}
    for nothing in ("null", "[]", "5", '{"a":"\\ud800"}', json.dumps({"a": "x" * HEADERS_MAX_BYTES})):
        assert decode_headers(msgspec.Raw(nothing.encode())) == {}


@pytest.mark.parametrize("member", ["headers", "sessionId", "afterCursor", "__ack"])
def test_a_member_that_is_a_huge_list_costs_no_more_than_its_text(member: str) -> None:
    text = json.dumps({"type": "auth" if member == "headers" else "subscribe", member: [[]] * 200_000})
    tracemalloc.start()
    try:
        PeerConnection("c", CODEC).receive(text)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 10_000, "\ud800"])
def test_an_unreadable_frame_is_invalid_input(text: str) -> None:
    with pytest.raises(InvalidInput):
        decode_inbound(text)


def test_a_command_of_the_wrong_shape_is_invalid_input() -> None:
    with pytest.raises(InvalidInput):
        CODEC.decode("image_run", msgspec.Raw(b'{"imageId":null}'))


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("image_upgrade", {"imageId": "i", "dry_run": True}, "there is no field dry_run; did you mean dryRun?"),
        ("image_upgrade", {"image_id": "i"}, "there is no field image_id; did you mean imageId?"),
        (
            "resource_list",
            {"zzzzzz": 1},
            "there is no field zzzzzz; there are cursor, dependsOn, limit, owner, q, scope, tag, type, visibility",
        ),
        ("definition_list", {"text": "a"}, "there is no field text; it takes none"),
    ],
)
def test_a_member_nobody_knows_is_refused_where_1x_has_no_such_command(name: str, data: dict[str, object], why: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        CODEC.decode(name, msgspec.Raw(json.dumps({"requestId": "r", **data}).encode()))
    assert str(caught.value) == f"Invalid {name}_request: {why}"


def test_a_command_of_1x_ignores_what_it_does_not_know() -> None:
    assert CODEC.decode("image_run", msgspec.Raw(b'{"imageId":"i","requestId":"r","image_id":5}')) == ImageRun(
        image_id=ImageId("i")
    )


def test_many_members_nobody_knows_cost_no_more_than_their_text() -> None:
    data = msgspec.Raw(json.dumps({str(number): 0 for number in range(200_000)}).encode())
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput):
            CODEC.decode("resource_list", data)
        assert tracemalloc.get_traced_memory()[1] < len(data)
    finally:
        tracemalloc.stop()


def test_the_request_id_is_found_whatever_else_is_wrong() -> None:
    assert decode_request_id(msgspec.Raw(b'{"imageId":[[]],"requestId":"r"}')) == "r"
    assert decode_request_id(msgspec.Raw(b"[]")) is None


@pytest.mark.parametrize("text", ['{"data":{}}', "[]", "{", '{"type":"x","data":[]}', "[" * 10_000, "\ud800"])
def test_a_server_frame_that_is_no_event_is_invalid_input(text: str) -> None:
    with pytest.raises(InvalidInput):
        decode_event(text)


def test_an_event_reads_back() -> None:
    event = decode_event('{"type":"text_delta","timestamp":7,"data":{"text":"a"},"context":{"imageId":"i"},"later":1}')
    assert (event.type, event.timestamp, event.data, event.context) == ("text_delta", 7, {"text": "a"}, {"imageId": "i"})


def test_a_reply_reads_back_or_is_invalid_input() -> None:
    assert decode_reply(ContainerGetReply, {"exists": True, "requestId": "r"}) == ContainerGetReply(exists=True)
    with pytest.raises(InvalidInput):
        decode_reply(ContainerGetReply, {})


class CountedPattern:
    """Stands for the costly search of a frame, and counts how often it is asked for."""

    def __init__(self) -> None:
        self.searched = 0

    def sub(self, replacement: object, text: str) -> str:
        self.searched += 1
        return text


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        ('{"a":"' + r"\n" * (5 * 1024 * 1024), 0),
        ('{"a":"' + r"\ud83d" + r"\n" * MENDED_MAX, 0),
        ('{"a":"' + r"\n" * 1_000, 0),
        ('{"a":"' + r"\ud83d", 1),
    ],
    ids=["large", "large with a half", "small", "small with a half"],
)
def test_only_a_small_frame_with_half_of_a_pair_is_searched(text: str, searched: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = CountedPattern()
    monkeypatch.setattr(codec, "_ESCAPE", pattern)
    with pytest.raises(InvalidInput):
        decode_inbound(text)
    assert pattern.searched == searched


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"\uDE00 late", "\ufffd late"),
        (r"\ud83d\ude00 and \ud83d", "\U0001f600 and \ufffd"),
        (r"\\ud83d is no escape, \ud83d is", "\\ud83d is no escape, \ufffd is"),
    ],
)
def test_half_of_a_surrogate_pair_is_replaced_and_the_rest_of_the_frame_kept(sent: str, read: str) -> None:
    frame = decode_inbound('{"type":"x","data":{"text":"' + sent + '"}}')
    assert json.loads(bytes(frame.data)) == {"text": read}
