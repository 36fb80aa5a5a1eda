"""Records — small valid images, sessions, messages, turns and waits for suites and tests."""

from typing import Any

from agentvm.model.definition import Definition, snapshot_of
from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.message import (
    AssistantMessage,
    ErrorMessage,
    ErrorTextOutput,
    FilePart,
    ImagePart,
    Message,
    ProviderContent,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolCallMessage,
    ToolResult,
    ToolResultMessage,
    UserMessage,
)
from agentvm.model.schedule import Schedule, ScheduleId, Trigger, TriggerId
from agentvm.model.session import Session
from agentvm.model.turn import Turn, TurnOutcome
from agentvm.model.usage import Usage
from agentvm.model.wait import ToolWait, WaitId

HOME = ContainerId("home")
IMAGE, SESSION = ImageId("img_1"), SessionId("img_1-default")


def image(image_id: str = IMAGE, container: str = HOME, *, now: int = 1, definition: Definition | None = None) -> Image:
    """An image whose default session is `default_session(image)`."""
    definition = definition or Definition(name="helper")
    return Image(
        image_id=ImageId(image_id),
        container_id=ContainerId(container),
        session_id=SessionId(f"{image_id}-default"),
        name=f"name of {image_id}",
        definition_name=definition.name,
        digest=snapshot_of(definition)[0],
        definition=definition,
        config=ImageConfig(),
        created_at=now,
        updated_at=now,
    )


def default_session(of: Image) -> Session:
    return session(of.session_id, of.image_id, of.container_id, now=of.created_at)


def session(session_id: str, image_id: str = IMAGE, container: str = HOME, *, now: int = 1) -> Session:
    return Session(
        session_id=SessionId(session_id),
        image_id=ImageId(image_id),
        container_id=ContainerId(container),
        title=None,
        created_at=now,
        updated_at=now,
    )


def message(message_id: str, text: str = "hello") -> UserMessage:
    return UserMessage(id=MessageId(message_id), timestamp=1, role="user", content=text)


def turn(
    turn_id: str, *, at: int = 1, outcome: TurnOutcome | None = None, usage: Usage | None = None, ended: int | None = None
) -> Turn:
    return Turn(
        turn_id=TurnId(turn_id),
        container_id=HOME,
        image_id=IMAGE,
        session_id=SESSION,
        message_id=MessageId("m1"),
        accepted_at=at,
        outcome=outcome,
        usage=usage,
        ended_at=ended,
    )


def wait(wait_id: str, turn_id: str = "t1", *, asked: str = "") -> ToolWait:
    """An open wait for an approval, of a call with the same id."""
    return ToolWait(
        wait_id=WaitId(wait_id),
        container_id=HOME,
        session_id=SESSION,
        turn_id=TurnId(turn_id),
        call_id=wait_id,
        kind="approval",
        tool="ok",
        fingerprint="sha256:the call itself",
        input={},
        asked=asked,
        why="",
        audience="sender",
        asked_at=1,
        expires_at=2,
    )


def schedule(schedule_id: str, container_id: ContainerId = HOME, **about: Any) -> Schedule:
    given = {"cron": "0 * * * *", "zone": "UTC", "next_at": 100, "wake_at": 100, **about}
    return Schedule(schedule_id=ScheduleId(schedule_id), **_source(container_id), **given)


def trigger(trigger_id: str, container_id: ContainerId = HOME, **about: Any) -> Trigger:
    return Trigger(trigger_id=TriggerId(trigger_id), **_source(container_id), **{"secret": b"sealed", **about})


def _source(container_id: ContainerId) -> dict[str, Any]:
    named = {"name": "n", "container_id": container_id, "image_id": IMAGE, "created_by": "t"}
    return {**named, "created_at": 1, "updated_at": 1}


EVERY_KIND: tuple[Message, ...] = (
    UserMessage(id=MessageId("1"), timestamp=1, role="user", content="北京 \u0000 🦀"),
    UserMessage(
        id=MessageId("2"),
        timestamp=2,
        role="user",
        content=(
            TextPart(text="see"),
            ImagePart(data="aGk=", media_type="image/png"),
            FilePart(data="aGk=", media_type="text/plain"),
        ),
    ),
    AssistantMessage(
        id=MessageId("3"),
        timestamp=3,
        role="assistant",
        content=(ThinkingPart(reasoning="hm", signature="s"), TextPart(text="yes")),
        usage=Usage(input_tokens=1, output_tokens=2, web_searches=1, estimated=True),
        provider_content=ProviderContent(provider="anthropic", blocks='[{"type": "text"}]', container="k"),
    ),
    ToolCallMessage(
        id=MessageId("4"),
        timestamp=4,
        role="assistant",
        tool_call=ToolCall(id="c", name="run", input={"deep": [1, {"x": None}]}, by_provider=True),
        parent_id=MessageId("3"),
    ),
    ToolResultMessage(
        id=MessageId("5"),
        timestamp=5,
        role="tool",
        tool_call_id="c",
        tool_result=ToolResult(id="c", name="run", output=ErrorTextOutput(value="no")),
    ),
    ErrorMessage(id=MessageId("6"), timestamp=6, role="error", content="down", error_code="timeout"),
)
