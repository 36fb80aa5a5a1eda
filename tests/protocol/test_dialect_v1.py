import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.fixtures import HARD_TEXTS, event

from agentvm.events import CATALOGUE, EventData
from agentvm.events.base import EventScope
from agentvm.events.error import CommandError
from agentvm.events.lifecycle import ContainerCreated
from agentvm.events.message import AssistantMessageEvent, MessagePersisted, SilentMessageEvent, ToolResultMessageEvent
from agentvm.events.state import ConversationResponding, ToolCompleted
from agentvm.events.stream import MessageStop, TextDelta, ToolUseStop
from agentvm.model import message as model
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId
from agentvm.operations.agent import AgentGetReply
from agentvm.operations.image import ImageGetReply, ImageMessagesReply
from agentvm.operations.message import MessageSendReply
from agentvm.protocol.dialect_v1 import SLICE_ITEMS_MAX, encode_event, encode_hello, encode_reply
from agentvm.protocol.requests import Reply

CONTEXT = {"containerId": "c1", "imageId": "img_1", "sessionId": "sess_1"}
ANSWER = model.AssistantMessage(id=MessageId("m"), timestamp=1, role="assistant", content=(model.TextPart(text="Hello world"),))


def sent(data: EventData, scope: EventScope | None = None) -> Any:
    frame = encode_event(event(data) if scope is None else event(data, scope))
    assert frame is not None
    return json.loads(frame.bare)


@pytest.mark.parametrize(
    ("data", "body", "envelope"),
    [
        (TextDelta(text="Hello"), {"text": "Hello"}, ("agent", "stream", "notification")),
        (ConversationResponding(), {}, ("agent", "state", "notification")),
        (MessageStop(stop_reason="end_turn"), {"stopReason": "end_turn"}, ("agent", "stream", "notification")),
        (
            ToolUseStop(tool_call_id="t", tool_name="Bash", input={"command": "ls"}),
            {"toolCallId": "t", "toolName": "Bash", "input": {"command": "ls"}},
            ("agent", "stream", "notification"),
        ),
        (
            MessagePersisted(session_id=SessionId("sess_1"), message_id=MessageId("m"), saved_at=7),
            {"sessionId": "sess_1", "messageId": "m", "savedAt": 7},
            ("session", "persist", "result"),
        ),
        (
            AssistantMessageEvent(message=ANSWER),
            {
                "id": "m",
                "role": "assistant",
                "subtype": "assistant",
                "content": [{"type": "text", "text": "Hello world"}],
                "timestamp": 1,
            },
            ("agent", "message", "notification"),
        ),
    ],
)
def test_an_event_has_the_envelope_of_1x(data: EventData, body: object, envelope: tuple[str, str, str]) -> None:
    source, category, intent = envelope
    assert sent(data) == {
        "type": data.type,
        "timestamp": 7,
        "data": body,
        "source": source,
        "category": category,
        "intent": intent,
        "context": CONTEXT,
    }


def test_ids_that_are_not_in_scope_are_absent_not_null() -> None:
    told = sent(ContainerCreated(container_id=ContainerId("c1"), created_at=7), EventScope(container_id=ContainerId("c1")))
    assert told["context"] == {"containerId": "c1"}
    error = sent(CommandError(message="no", severity="error", code="refused"), EventScope())
    assert error["data"] == {"message": "no", "severity": "error", "code": "refused"}
    assert error["context"] == {}


def test_what_is_only_stored_has_no_frame() -> None:
    assert encode_event(event(SilentMessageEvent(message=ANSWER))) is None
    assert "silent_message" not in CATALOGUE


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_through(text: str) -> None:
    assert sent(TextDelta(text=text))["data"] == {"text": text}


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_hard_texts_come_through(text: str) -> None:
    assert sent(ToolCompleted(tool_id="t", tool_name=text, result={text: [text]}))["data"]["result"] == {text: [text]}


def test_a_reply_names_the_request_and_says_it_is_a_response() -> None:
    reply = AgentGetReply(exists=False)
    assert json.loads(encode_reply("agent_get", "req_1", reply, 7).bare) == {
        "type": "agent_get_response",
        "timestamp": 7,
        "data": {"requestId": "req_1", "exists": False},
        "source": "command",
        "category": "response",
        "intent": "result",
    }


def test_a_reply_may_be_empty_or_go_to_a_request_without_an_id() -> None:
    assert json.loads(encode_reply("x", "r", Reply(), 7).bare)["data"] == {"requestId": "r"}
    assert json.loads(encode_reply("x", None, Reply(), 7).bare)["data"] == {}
    assert json.loads(encode_reply("x", None, Reply(error="no"), 7).bare)["data"] == {"error": "no"}


@pytest.mark.parametrize("count", [0, 1, SLICE_ITEMS_MAX, SLICE_ITEMS_MAX + 1, 3 * SLICE_ITEMS_MAX])
def test_a_long_list_is_encoded_as_a_short_one(count: int) -> None:
    messages = tuple(
        model.UserMessage(id=MessageId(f"m{number}"), timestamp=number, role="user", content="hi") for number in range(count)
    )
    data = json.loads(
        encode_reply("image_messages", "r", ImageMessagesReply(image_id=ImageId("i"), messages=messages), 7).bare
    )["data"]
    assert data == {"requestId": "r", "imageId": "i", "messages": [json.loads(model.encode_message(each)) for each in messages]}


def test_nothing_found_is_null_but_an_unset_member_is_absent() -> None:
    assert json.loads(encode_reply("image_get", "r", ImageGetReply(record=None), 7).bare)["data"] == {
        "requestId": "r",
        "record": None,
    }
    sent_by_agent = MessageSendReply(agent_id="a", image_id=None)
    assert "imageId" not in json.loads(encode_reply("message_send", "r", sent_by_agent, 7).bare)["data"]
    assert ImageId("x") not in encode_reply("message_send", "r", sent_by_agent, 7).bare


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_name_and_request_id_come_back_as_they_were(text: str) -> None:
    reply = json.loads(encode_reply(text, text, Reply(error=text), 7).bare)
    assert (reply["type"], reply["data"]["requestId"]) == (f"{text}_response", text)


def test_the_probe_is_a_harmless_event() -> None:
    assert json.loads(encode_hello(7).bare) == {"type": "server_hello", "timestamp": 7, "data": {}}


@pytest.mark.parametrize(
    ("output", "flat"),
    [
        (model.JsonOutput(value={"a": [1]}), {"type": "text", "value": '{"a":[1]}'}),
        (model.ErrorJsonOutput(value={"code": 7}), {"type": "error-text", "value": '{"code":7}'}),
        (model.DeniedOutput(reason="no"), {"type": "execution-denied", "reason": "no", "value": "no"}),
        (model.TextOutput(value="x"), {"type": "text", "value": "x"}),
        (model.ContentOutput(value=(model.TextPart(text="x"),)), {"type": "content", "value": [{"type": "text", "text": "x"}]}),
    ],
)
def test_results_are_what_clients_of_1x_know(output: model.ToolOutput, flat: object) -> None:
    result = model.ToolResult(id="c", name="t", output=output)
    message = model.ToolResultMessage(id=MessageId("m"), timestamp=1, role="tool", tool_call_id="c", tool_result=result)
    assert sent(ToolResultMessageEvent(message=message))["data"]["toolResult"]["output"] == flat
    reply = ImageMessagesReply(image_id=ImageId("img_1"), messages=(message,))
    told = json.loads(encode_reply("image_messages", "r", reply, 1).bare)
    assert told["data"]["messages"][0]["toolResult"]["output"] == flat


def test_the_content_that_only_a_provider_can_read_is_not_sent() -> None:
    content = model.ProviderContent(provider="anthropic", blocks="[1]")
    message = model.AssistantMessage(
        id=MessageId("m"), timestamp=1, role="assistant", content=(model.TextPart(text="a"),), provider_content=content
    )
    frame = encode_event(event(AssistantMessageEvent(message=message)))
    assert frame is not None
    assert "provider" not in frame.bare
