import json

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.fixtures import event
from tests.protocol.test_dialect_v2 import ANSWER, TURN, call
from tests.support.examples import examples

from agentvm.events import EventData
from agentvm.events.message import AssistantMessageEvent, ToolCallMessageEvent
from agentvm.events.state import ConversationEnd
from agentvm.events.stream import MessageStop, TextDelta, ToolResultEvent
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import ToolCallMessage
from agentvm.model.usage import Usage
from agentvm.protocol.codec import Frame
from agentvm.protocol.dialect_v2 import encode_event_v2
from agentvm.protocol.rpc_peer import SENDS_MAX, PendingSend, RpcPeer

END = TurnResponse(
    turn_id=TurnId("turn_9"),
    message_id=MessageId("q"),
    outcome="completed",
    stop_reason="end_turn",
    duration=1,
    usage=Usage(input_tokens=1, output_tokens=1),
    timestamp=1,
)


def frames(*told: EventData) -> list[Frame]:
    encoded = [encode_event_v2(event(data, TURN)) for data in told]
    return [frame for frame in encoded if frame is not None]


def heard(texts: list[str]) -> list[tuple[str, object]]:
    events = [json.loads(text)["params"]["event"] for text in texts]
    return [(each["type"], [part["type"] for part in each["data"].get("content", ())]) for each in events]


def test_an_answer_leaves_with_its_calls_before_the_first_result() -> None:
    result = ToolResultEvent(tool_call_id="t1", result="noon", is_error=False)
    calls = [ToolCallMessageEvent(message=call(1)), ToolCallMessageEvent(message=call(2))]
    whole = [("assistant_message", ["text", "tool-call", "tool-call"]), ("tool_result", [])]
    assert heard(RpcPeer().texts(frames(*calls, AssistantMessageEvent(message=ANSWER), result))) == whole
    assert heard(RpcPeer().texts(frames(AssistantMessageEvent(message=ANSWER), *calls, result))) == whole


def test_calls_without_a_text_are_an_answer_of_their_own() -> None:
    peer = RpcPeer()
    assert peer.texts(frames(ToolCallMessageEvent(message=call(1, "silent")))) == []
    texts = peer.texts(frames(ConversationEnd(reason="completed")))
    assert heard(texts) == [("assistant_message", ["tool-call"]), ("conversation_end", [])]
    assert json.loads(texts[0])["params"]["event"]["data"]["id"] == "silent"


def test_an_answer_without_calls_leaves_with_the_next_event() -> None:
    texts = RpcPeer().texts(frames(AssistantMessageEvent(message=ANSWER), ConversationEnd(reason="completed")))
    assert heard(texts) == [("assistant_message", ["text"]), ("conversation_end", [])]


def test_the_end_of_an_answer_is_told_before_the_message_that_it_becomes() -> None:
    told = (ToolCallMessageEvent(message=call(1)), MessageStop(stop_reason="tool_use"), AssistantMessageEvent(message=ANSWER))
    texts = RpcPeer().texts(frames(*told, ConversationEnd(reason="completed")))
    assert [kind for kind, _ in heard(texts)] == ["message_stop", "assistant_message", "conversation_end"]


def test_a_send_is_answered_after_the_last_event_of_its_turn_and_once() -> None:
    peer, stopped = RpcPeer(), []
    peer.expect(TurnId("turn_9"), PendingSend(4, {"turnId": "turn_9"}, lambda: stopped.append(4)))
    *_, last = peer.texts(frames(END))
    assert json.loads(last) == {"jsonrpc": "2.0", "id": 4, "result": {"turnId": "turn_9", "status": "completed"}}
    assert stopped == [4]
    assert peer.give_up(TurnId("turn_9"), 4) is None
    assert len(peer.texts(frames(END))) == 1


def test_a_send_that_is_given_up_is_not_answered_again() -> None:
    peer = RpcPeer()
    peer.expect(TurnId("turn_9"), PendingSend(4, {}, lambda: None))
    assert peer.give_up(TurnId("turn_9"), 4) is not None
    assert len(peer.texts(frames(END))) == 1


def test_waiting_sends_have_a_bound_and_end_with_the_connection() -> None:
    peer, stopped = RpcPeer(), []
    for number in range(SENDS_MAX):
        assert peer.expect(TurnId(f"turn_{number}"), PendingSend(number, {}, lambda: stopped.append(1)))
    assert not peer.expect(TurnId("turn_more"), PendingSend(1, {}, lambda: None))
    peer.close()
    assert len(stopped) == SENDS_MAX


def test_a_response_passes_as_it_is() -> None:
    assert RpcPeer().texts([Frame('{"id":1}')]) == ['{"id":1}']


_EVENTS: st.SearchStrategy[EventData] = st.one_of(
    st.builds(lambda number: ToolCallMessageEvent(message=call(number)), st.integers(1, 3)),
    st.builds(lambda number: ToolCallMessageEvent(message=call(number, "silent")), st.integers(4, 6)),
    st.sampled_from(
        [
            AssistantMessageEvent(message=ANSWER),
            TextDelta(text='"context":{"instanceId":"inst_x"}'),
            MessageStop(stop_reason="tool_use"),
            ToolResultEvent(tool_call_id="t1", result={"context": {"instanceId": "inst_x"}}, is_error=False),
            ConversationEnd(reason="completed"),
        ]
    ),
)


@settings(max_examples=examples(50, 2_000))
@given(st.lists(_EVENTS, max_size=14), st.booleans())
def test_any_order_of_events_is_a_stream_in_which_no_call_is_lost_or_told_twice(
    told: list[EventData], is_earlier: bool
) -> None:
    peer = RpcPeer()
    peer.is_earlier = is_earlier
    shown = [json.loads(text) for text in peer.texts(frames(*told, END))]
    events = [each["params"]["event"] for each in shown]
    for each in events:
        context = each["context"]
        assert {"type", "timestamp", "source", "category", "intent", "data"} <= each.keys()
        assert {"instanceId", "imageId", "sessionId"} <= context.keys()
        assert ("agentId" in context) is is_earlier
    assert events[-1]["type"] == "turn_response"
    parts = [part for each in events if each["type"] == "assistant_message" for part in each["data"]["content"]]
    messages = [data.message for data in told if isinstance(data, ToolCallMessageEvent)]
    calls = [message.tool_call.id for message in messages if isinstance(message, ToolCallMessage)]
    assert sorted(part["id"] for part in parts if part["type"] == "tool-call") == sorted(calls)
    said = [each["data"]["text"] for each in events if each["type"] == "text_delta"]
    assert said == [data.text for data in told if isinstance(data, TextDelta)]
