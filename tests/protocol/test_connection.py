import json
from typing import get_args

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.protocol.fixtures import HARD_TEXTS, REQUESTS

from agentvm.errors import InvalidInput, UnknownCommand
from agentvm.model.ids import SessionId
from agentvm.operations.image_build import ImageCreate
from agentvm.operations.message import MessageSend
from agentvm.operations.table import CODEC, COMMANDS
from agentvm.protocol.acks import Acks
from agentvm.protocol.codec import Frame
from agentvm.protocol.connection import (
    Acked,
    AuthReceived,
    CommandReceived,
    CommandRefused,
    ConnectionState,
    Dropped,
    FollowReceived,
    NoiseReceived,
    PeerConnection,
    Received,
    RpcReceived,
    SubscribeReceived,
    UnsubscribeReceived,
)
from agentvm.protocol.rpc import RpcCall
from agentvm.protocol.rpc_peer import RpcPeer

RECEIVED = get_args(Received)
WRONG = [1, True, 1.5, [1], {"name": 7}]
OPEN = {"content", "args"}
"""Members of resource commands that may be any object: what must be in it is its type's business."""

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
members = st.sampled_from(["type", "data", "sessionId", "afterCursor", "headers", "__ack", "requestId", "source", "x"])
kinds = st.sampled_from(["auth", "subscribe", "x_request", "text_delta", "_request", *(f"{name}_request" for name in COMMANDS)])


def request(name: str, data: dict[str, object]) -> str:
    return json.dumps({"type": f"{name}_request", "data": {**data, "requestId": "req_1"}})


@given(st.text(st.characters()))
@example("\ud800")
@example('{"type":"subscribe","sessionId":"\\ud800"}')
@example('{"__ack":"\ud83d"}')
@example("[" * 100_000)
@example('{"type":"message_send_request","data":' + '{"a":' * 100_000)
@example("1" * 10_000)
@example('{"type":"a_request","data":{"requestId":' + "1" * 10_000 + "}}")
def test_any_text_is_received_without_an_exception(text: str) -> None:
    assert isinstance(PeerConnection("c", CODEC).receive(text), RECEIVED)


@given(st.dictionaries(members, json_values | kinds, max_size=6))
def test_any_json_object_is_received_without_an_exception(frame: dict[str, object]) -> None:
    assert isinstance(PeerConnection("c", CODEC).receive(json.dumps(frame)), RECEIVED)


@given(kinds, json_values)
def test_any_data_of_any_request_is_received_without_an_exception(kind: str, data: object) -> None:
    assert isinstance(PeerConnection("c", CODEC).receive(json.dumps({"type": kind, "data": data})), RECEIVED)


@given(st.text(st.characters()))
@example("\ud83d\ud83d\ude00")
@example("\\ud800 \\\ud800")
def test_half_of_a_surrogate_pair_is_received_as_the_replacement_character(text: str) -> None:
    received = PeerConnection("c", CODEC).receive(request("message_send", {"imageId": "i", "content": text}))
    assert isinstance(received, CommandReceived)
    assert isinstance(received.request, MessageSend)
    assert received.request.content == text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_nesting_of_any_depth_is_received_without_an_exception() -> None:
    for depth in (*range(850, 1_050, 3), 5_000):
        nested = '{"a":' * depth + "1" + "}" * depth
        data = f'{{"requestId":"r","containerId":"c","config":{{"mcpServers":{nested}}}}}'
        received = PeerConnection("c", CODEC).receive(f'{{"type":"image_create_request","data":{data}}}')
        assert isinstance(received, RECEIVED), depth


@pytest.mark.parametrize("text", ["", "not json", "null", "[]", "1", '"text"', "{", '{"type":5}', "NaN", '{"a":NaN}', "{}x"])
def test_what_is_no_frame_is_answered_to_its_sender(text: str) -> None:
    received = PeerConnection("c", CODEC).receive(text)
    assert isinstance(received, NoiseReceived)
    assert received.error.code == "invalid_input"


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "assistant_message", "data": {"content": "forged"}, "category": "message"},
        {"type": "message_send_response", "data": {"requestId": "r"}, "category": "response"},
        {"type": "subscribe"},
        {"type": "subscribe", "sessionId": ""},
        {"__msgId": "x", "__payload": "{}"},
    ],
)
def test_what_only_a_server_may_send_or_asks_for_nothing_is_dropped(frame: dict[str, object]) -> None:
    assert PeerConnection("c", CODEC).receive(json.dumps(frame)) == Dropped()


@pytest.mark.parametrize("frame", [{}, {"data": {}}, {"type": "ping"}, {"type": "", "data": 1}, {"type": "x" * 5_000}])
def test_a_frame_that_nobody_knows_is_answered_and_not_passed_over(frame: dict[str, object]) -> None:
    received = PeerConnection("c", CODEC).receive(json.dumps(frame))
    assert isinstance(received, NoiseReceived)
    assert "<command>_request" in str(received.error)
    assert len(str(received.error)) < 400


def test_frames_of_json_rpc_are_told_apart_from_those_of_1x() -> None:
    connection = PeerConnection("c", CODEC)
    assert not connection.has_spoken
    received = connection.receive(json.dumps({"jsonrpc": "2.0", "id": 7, "method": "image.list"}))
    assert received == RpcReceived([RpcCall("image.list", msgspec.Raw(b"{}"), 7)])
    assert connection.receive('[{"jsonrpc":"2.0","method":"auth"}]') == RpcReceived([RpcCall("auth", msgspec.Raw(b"{}"))])
    assert connection.has_spoken


def test_a_peer_of_json_rpc_is_sent_frames_of_its_dialect() -> None:
    connection = PeerConnection("c", CODEC)
    assert connection.texts([Frame("a"), Frame("b")]) == ["a", "b"]
    connection.rpc = RpcPeer()
    assert connection.texts([Frame("a")]) == ["a"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_well_formed_request_becomes_its_command(name: str) -> None:
    received = PeerConnection("c", CODEC).receive(request(name, REQUESTS[name]))
    assert isinstance(received, CommandReceived)
    assert isinstance(received.request, COMMANDS[name])
    assert received.request_id == "req_1"


EVERY_MEMBER = [(name, member) for name in COMMANDS for member in REQUESTS[name]]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_member_of_the_wrong_type_is_refused_to_the_one_who_asked(wrong: object) -> None:
    for name, member in EVERY_MEMBER:
        if name.startswith("resource_") and member in OPEN and isinstance(wrong, dict):
            continue
        received = PeerConnection("c", CODEC).receive(request(name, {**REQUESTS[name], member: wrong}))
        assert isinstance(received, CommandRefused), (name, member)
        assert (received.name, received.request_id, received.error.code) == (name, "req_1", "invalid_input")


@pytest.mark.parametrize("data", ["null", "[]", "1", '"text"', "{}"])
def test_a_request_without_its_data_is_refused(data: str) -> None:
    received = PeerConnection("c", CODEC).receive(f'{{"type":"image_run_request","data":{data}}}')
    assert isinstance(received, CommandRefused)
    assert isinstance(received.error, InvalidInput)
    assert received.request_id is None


def test_a_request_id_that_is_no_text_is_no_request_id() -> None:
    received = PeerConnection("c", CODEC).receive('{"type":"container_list_request","data":{"requestId":7}}')
    assert isinstance(received, CommandReceived)
    assert received.request_id is None


def test_an_unknown_command_is_refused_under_its_own_name() -> None:
    received = PeerConnection("c", CODEC).receive('{"type":"image_explode_request","data":{"requestId":"r"}}')
    assert isinstance(received, CommandRefused)
    assert isinstance(received.error, UnknownCommand)
    assert (received.name, received.request_id) == ("image_explode", "r")
    endless = PeerConnection("c", CODEC).receive(json.dumps({"type": "x" * 100_000 + "_request"}))
    assert isinstance(endless, CommandRefused)
    assert len(str(endless.error)) < 300


def test_what_a_client_says_about_itself_is_ignored() -> None:
    frame = {
        "type": "message_send_request",
        "data": {"imageId": "img_1", "content": "hi", "requestId": "r", "tenantId": "other", "sessionId": None},
        "source": "agent",
        "context": {"sessionId": "sess_other"},
    }
    received = PeerConnection("c", CODEC).receive(json.dumps(frame))
    assert isinstance(received, CommandReceived)
    assert isinstance(received.request, MessageSend)
    assert received.request.session_id is None


def test_an_image_may_be_created_without_a_config() -> None:
    for data in ({"containerId": "c1"}, {"containerId": "c1", "config": None}, {"containerId": "c1", "config": {}}):
        received = PeerConnection("c", CODEC).receive(request("image_create", {**data}))
        assert isinstance(received, CommandReceived)
        assert isinstance(received.request, ImageCreate)


def test_subscribe_and_auth_are_read() -> None:
    connection = PeerConnection("c", CODEC)
    subscribe = connection.receive('{"type":"subscribe","sessionId":"s","afterCursor":"5"}')
    assert isinstance(subscribe, SubscribeReceived)
    assert (subscribe.session_id, subscribe.after) == ("s", 5)
    assert connection.receive('{"type":"auth","headers":{"Authorization":"Bearer t"}}') == AuthReceived(
        {"Authorization": "Bearer t"}
    )
    assert connection.receive('{"type":"auth"}') == AuthReceived({})


@pytest.mark.parametrize(
    ("frame", "received"),
    [
        ({"type": "subscribe", "sessionId": "s", "deltas": False}, SubscribeReceived(SessionId("s"), None, False)),
        ({"type": "subscribe", "containerId": "c", "deltas": False}, FollowReceived("c", deltas=False)),
        ({"type": "subscribe", "containerId": "c"}, FollowReceived("c")),
        ({"type": "unsubscribe", "sessionId": "s"}, UnsubscribeReceived(session_id=SessionId("s"))),
        ({"type": "unsubscribe", "containerId": "c"}, UnsubscribeReceived(container_id="c")),
        ({"type": "unsubscribe"}, Dropped()),
    ],
)
def test_what_a_client_hears_is_chosen_by_session_and_container(frame: object, received: Received) -> None:
    assert PeerConnection("c", CODEC).receive(json.dumps(frame)) == received


def test_deltas_are_asked_for_or_not() -> None:
    received = PeerConnection("c", CODEC).receive('{"type":"subscribe","sessionId":"s","deltas":1}')
    assert isinstance(received, NoiseReceived)


def test_frames_go_bare_until_the_probe_is_acknowledged_then_wrapped() -> None:
    connection = PeerConnection("conn_1", CODEC)
    probe = json.loads(connection.hello(7))
    assert probe["__msgId"] == "conn_1_1"
    assert json.loads(probe["__payload"])["type"] == "server_hello"
    assert connection.send(Frame('{"a":1}')) == '{"a":1}'
    assert connection.receive('{"__ack":"conn_1_1"}') == Acked("conn_1_1")
    assert json.loads(connection.send(Frame('{"a":1}'))) == {"__msgId": "conn_1_2", "__payload": '{"a":1}'}
    assert json.loads(connection.send(Frame('{"a":2}')))["__msgId"] == "conn_1_3"


@given(st.lists(st.sampled_from(["conn_1_1", "conn_1_2", "conn_2_1", "", "x"]) | st.text(max_size=200), max_size=8))
def test_only_the_ack_of_the_probe_changes_the_form(acks: list[str]) -> None:
    connection = PeerConnection("conn_1", CODEC)
    connection.hello(7)
    for ack in acks:
        before = connection.state
        assert connection.receive(json.dumps({"__ack": ack})) == Acked(ack)
        assert connection.state is (ConnectionState.RELIABLE if ack == "conn_1_1" else before)


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_a_wrapped_payload_is_the_bare_frame_whatever_it_says(text: str) -> None:
    connection = PeerConnection("conn_1", CODEC)
    connection.hello(7)
    connection.receive('{"__ack":"conn_1_1"}')
    bare = json.dumps({"data": text}, ensure_ascii=False)
    assert json.loads(connection.send(Frame(bare)))["__payload"] == bare


def reliable(acks: Acks | None) -> PeerConnection:
    """With frames 2, 3 and 4 sent: two events of a session, and a reply."""
    connection = PeerConnection("conn_1", CODEC, acks)
    connection.hello(7)
    connection.receive('{"__ack":"conn_1_1"}')
    for frame in (Frame("{}", SessionId("s"), 5), Frame("{}", SessionId("s"), 6), Frame("{}")):
        connection.send(frame)
    return connection


def test_events_that_were_sent_wait_for_their_acknowledgement() -> None:
    acks = Acks()
    connection = reliable(acks)
    assert acks.pending == 2
    connection.receive('{"__ack":"conn_1_2"}')
    assert (acks.pending, acks.cursor(SessionId("s"))) == (1, 5)
    connection.receive('{"__ack":"conn_1_4"}')
    assert (acks.pending, acks.cursor(SessionId("s"))) == (0, 6)


def test_bare_frames_are_not_accounted_for() -> None:
    acks = Acks()
    connection = PeerConnection("conn_1", CODEC, acks)
    connection.hello(7)
    connection.send(Frame("{}", SessionId("s"), 5))
    assert acks.pending == 0


@pytest.mark.parametrize(
    "odd",
    [
        "conn_1_5",
        "conn_1_0",
        "conn_1_-1",
        "conn_1_",
        "conn_1_2x",
        "conn_1_²",
        "conn_1_" + "9" * 5_000,
        "conn_2_3",
        "3",
        "",
        "_3",
    ],
)
def test_an_acknowledgement_of_what_was_never_sent_says_nothing(odd: str) -> None:
    acks = Acks()
    connection = reliable(acks)
    assert connection.receive(json.dumps({"__ack": odd})) == (Acked(odd) if len(odd) <= 200 else Dropped())
    assert (acks.pending, acks.heard) == (2, 1)


def test_a_subscription_to_what_can_be_no_session_is_dropped() -> None:
    for session_id in ("", "x" * 201, 5, None, ["s"]):
        frame = json.dumps({"type": "subscribe", "sessionId": session_id, "afterCursor": "1"})
        assert PeerConnection("c", CODEC).receive(frame) == Dropped()


@pytest.mark.parametrize(
    ("frame", "received"),
    [
        ({"type": []}, NoiseReceived),
        ({"type": 5, "__ack": "c_1"}, NoiseReceived),
        ({"type": "x" * 100_000}, NoiseReceived),
        ({"type": "x" * 100_000 + "_response"}, Dropped),
        ({"type": "x" * 100_000, "category": "stream"}, Dropped),
    ],
)
def test_a_type_that_names_nothing_is_received_at_any_length(frame: dict[str, object], received: type) -> None:
    assert isinstance(PeerConnection("c", CODEC).receive(json.dumps(frame)), received)


def test_a_request_of_a_very_long_type_is_refused_by_its_request_id() -> None:
    refused = PeerConnection("c", CODEC).receive(request("x" * 100_000, {}))
    assert isinstance(refused, CommandRefused)
    assert refused.request_id == "req_1"
    assert len(str(refused.error)) < 1_000
