import json
from typing import Any

import msgspec
import pytest
from tests.protocol.fixtures import event

from agentvm.events import EventData
from agentvm.events.base import EventScope
from agentvm.events.error import CommandError, ErrorReceived
from agentvm.events.lifecycle import AgentRegistered, AgentUnregistered, Interrupted, SessionRewound
from agentvm.events.message import AssistantMessageEvent, MessagePersisted, UserMessageEvent
from agentvm.events.state import ConversationStart, ToolPlanned
from agentvm.events.stream import MessageStart, TextDelta, ToolUseStart
from agentvm.events.turn import TurnRequest
from agentvm.model import message as model
from agentvm.model.ids import AgentId, ContainerId, ImageId, MessageId, RewindId, SessionId, TurnId
from agentvm.protocol.dialect_v2 import (
    FrameV2,
    agent_of,
    encode_event_v2,
    encode_send_error,
    fold_messages,
    instance_of,
    is_instance,
    with_agent_id,
)
from agentvm.protocol.rpc import RpcProblem

TURN = EventScope(
    container_id=ContainerId("c1"),
    image_id=ImageId("img_1"),
    agent_id=AgentId("agent_7"),
    session_id=SessionId("sess_1"),
    turn_id=TurnId("turn_9"),
)
CONTEXT = {"instanceId": "inst_7", "imageId": "img_1", "containerId": "c1", "sessionId": "sess_1"}
ANSWER = model.AssistantMessage(id=MessageId("m1"), timestamp=1, role="assistant", content=(model.TextPart(text="Look"),))


def call(number: int, parent: str = "m1") -> model.ToolCallMessage:
    tool_call = model.ToolCall(id=f"t{number}", name="clock", input={})
    return model.ToolCallMessage(
        id=MessageId(f"c{number}"), timestamp=2, role="assistant", tool_call=tool_call, parent_id=MessageId(parent)
    )


def told(data: EventData, scope: EventScope = TURN) -> list[Any]:
    frame = encode_event_v2(event(data, scope))
    assert isinstance(frame, FrameV2)
    notifications = [json.loads(text) for text in frame.texts]
    assert all((each["jsonrpc"], each["method"]) == ("2.0", "stream.event") for each in notifications)
    return [each["params"] for each in notifications]


@pytest.mark.parametrize(
    ("data", "source", "category"),
    [
        (TextDelta(text="Hi"), "runtime", "stream"),
        (MessageStart(message_id="m", model="x"), "runtime", "message"),
        (ToolUseStart(tool_call_id="t", tool_name="clock"), "runtime", "tool"),
        (ConversationStart(message_id="m"), "agent", "state"),
        (ToolPlanned(tool_id="t", tool_name="clock"), "agent", "state"),
    ],
)
def test_an_event_of_a_turn_has_the_words_of_2x_and_both_ids(data: EventData, source: str, category: str) -> None:
    (params,) = told(data)
    assert params["topic"] == "sess_1"
    said = params["event"]
    assert (said["type"], said["source"], said["category"], said["intent"]) == (data.type, source, category, "notification")
    assert said["context"] == CONTEXT
    # One per turn, on the events that a model makes, and on no others.
    assert said.get("requestId") == ("req_9" if source == "runtime" else None)


def test_agents_are_instances_there_and_back() -> None:
    assert (instance_of(AgentId("agent_7")), agent_of("inst_7")) == ("inst_7", "agent_7")
    assert is_instance("inst_7")
    assert not is_instance("img_7")
    scope = EventScope(container_id=ContainerId("c1"), agent_id=AgentId("agent_7"))
    begun = AgentRegistered(
        container_id=ContainerId("c1"),
        agent_id=AgentId("agent_7"),
        definition_name="d",
        registered_at=1,
        image_id=ImageId("img_1"),
        session_id=SessionId("sess_1"),
    )
    ended = AgentUnregistered(
        container_id=ContainerId("c1"), agent_id=AgentId("agent_7"), image_id=ImageId("img_1"), session_id=SessionId("sess_1")
    )
    ((created,), (destroyed,)) = told(begun, scope), told(ended, scope)
    assert created["event"]["type"] == "agent_created"
    assert created["event"]["data"] == {"instanceId": "inst_7", "imageId": "img_1", "containerId": "c1"}
    assert destroyed["event"]["type"] == "agent_destroyed"
    assert all((each["topic"], each["event"]["context"]) == ("sess_1", CONTEXT) for each in (created, destroyed))


def test_a_failure_is_the_event_that_clients_show_and_the_one_they_know() -> None:
    error, received = told(ErrorReceived(message="gone", error_code="provider_down"))
    assert [error["event"]["type"], received["event"]["type"]] == ["error", "error_received"]
    assert error["event"]["data"] == {"message": "gone", "errorCode": "provider_down"}


def test_an_interrupt_of_a_turn_is_passed_on_and_has_an_effect() -> None:
    def interrupted(turn_id: TurnId | None) -> list[tuple[str, str | None]]:
        data = Interrupted(agent_id=AgentId("agent_7"), container_id=ContainerId("c1"), turn_id=turn_id)
        events = [params["event"] for params in told(data, msgspec.structs.replace(TURN, turn_id=None))]
        return [(event["type"], event.get("requestId")) for event in events]

    assert interrupted(TurnId("turn_9")) == [("interrupt", "req_9"), ("interrupted", "req_9")]
    assert interrupted(None) == [("interrupt", None)]


def test_a_rewind_names_the_message_that_stays_even_without_an_agent() -> None:
    scope = EventScope(container_id=ContainerId("c1"), image_id=ImageId("img_1"), session_id=SessionId("sess_1"))
    data = SessionRewound(
        session_id=SessionId("sess_1"),
        rewind_id=RewindId("r"),
        message_ids=(MessageId("a"), MessageId("b"), MessageId("c")),
        rewound_at=1,
        kept_id=MessageId("m1"),
        folded=2,
    )
    (params,) = told(data, scope)
    said = params["event"]
    assert (said["type"], said["data"]["messageId"], said["data"]["truncatedCount"]) == ("rewind", "m1", 2)
    # An event without an instance would be applied to every conversation.
    assert said["context"]["instanceId"].startswith("inst_")


@pytest.mark.parametrize(
    "data",
    [
        MessagePersisted(session_id=SessionId("s"), message_id=MessageId("m"), saved_at=1),
        CommandError(message="no", severity="error", code="invalid_input"),
    ],
)
def test_events_that_2x_does_not_have_are_left_out(data: EventData) -> None:
    assert encode_event_v2(event(data)) is None


def test_a_request_of_a_turn_has_an_empty_content_and_a_question_is_told_whole() -> None:
    (request,) = told(TurnRequest(turn_id=TurnId("turn_9"), message_id=MessageId("m"), timestamp=1))
    assert request["event"]["data"] == {"turnId": "turn_9", "messageId": "m", "timestamp": 1, "content": ""}
    question = model.UserMessage(id=MessageId("q"), timestamp=1, role="user", content="Hi")
    (said,) = told(UserMessageEvent(message=question))
    assert (said["event"]["data"]["content"], said["event"]["data"]["subtype"]) == ("Hi", "user")


def test_an_assistant_message_waits_for_its_calls() -> None:
    frame = encode_event_v2(event(AssistantMessageEvent(message=ANSWER), TURN))
    assert isinstance(frame, FrameV2)
    assert frame.part == ANSWER


def test_a_history_has_calls_as_parts_of_their_message() -> None:
    question = model.UserMessage(id=MessageId("q"), timestamp=1, role="user", content="Hi")
    folded: Any = msgspec.to_builtins(fold_messages([question, call(1), ANSWER, call(2), call(3, "m2")]))
    assert [item["id"] for item in folded] == ["q", "m1", "m2"]
    assert [part["type"] for part in folded[1]["content"]] == ["text", "tool-call", "tool-call"]
    assert (folded[1]["role"], folded[1]["subtype"]) == ("assistant", "assistant")


def test_a_refused_message_is_told_to_its_sender_under_its_image() -> None:
    frame = encode_send_error(RpcProblem(404, "Image not found: x"), "image_not_found", "img_x", None, 7)
    said = json.loads(frame.bare)["params"]["event"]
    context = {"instanceId": "inst_x", "imageId": "img_x"}
    assert (said["type"], said["data"]["message"], said["context"]) == ("error", "Image not found: x", context)


def test_pieces_of_answers_that_take_turns_keep_their_own_conversations() -> None:
    other = msgspec.structs.replace(TURN, session_id=SessionId("sess_other"), turn_id=TurnId("turn_other"))
    alike = msgspec.structs.replace(TURN)
    for scope in (TURN, other, TURN, alike, other, other):
        (said,) = told(TextDelta(text="x"), scope)
        assert said["topic"] == scope.session_id
        assert said["event"]["requestId"] == f"req_{str(scope.turn_id).removeprefix('turn_')}"
    frame = encode_event_v2(msgspec.structs.replace(event(TextDelta(text="x"), TURN), seq=9))
    assert frame is not None
    assert json.loads(frame.bare)["params"]["seq"] == 9


def test_a_client_of_2_0_is_told_the_agent_of_an_event_and_what_was_said_stays_as_it_is() -> None:
    said = '"data":{"input":{"context":{"instanceId":"inst_9"}}}'
    text = f'{{"event":{{"context":{{"instanceId":"inst_1","imageId":"img_1"}},{said}}}}}'
    told = f'{{"event":{{"context":{{"agentId":"agent_1","instanceId":"inst_1","imageId":"img_1"}},{said}}}}}'
    assert with_agent_id(text) == told
    assert with_agent_id('{"result":{}}') == '{"result":{}}'
    assert agent_of("agent_1") == agent_of("inst_1") == "agent_1"
