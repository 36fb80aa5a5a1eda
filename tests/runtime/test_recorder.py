import pytest
from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import SessionNotFound
from agentvm.events.base import Event, EventData, Scope
from agentvm.events.lifecycle import ContainerCreated
from agentvm.events.message import SilentMessage, UserMessage
from agentvm.events.stream import TextDelta
from agentvm.events.turn import TurnRequest, TurnResponse
from agentvm.model import message as model
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, MessageId, SessionId, TurnId
from agentvm.model.image import Image
from agentvm.model.turn import Turn
from agentvm.model.usage import Usage
from agentvm.runtime.recorder import StoreRecorder, is_durable

pytestmark = pytest.mark.anyio

USAGE = Usage(input_tokens=1, output_tokens=2)
HELLO = model.UserMessage(id=MessageId("m1"), timestamp=10, turn_id=TurnId("turn_1"), role="user", content="hi")
EMPTY = model.AssistantMessage(id=MessageId("m2"), timestamp=11, role="assistant", content=())
BEGIN = TurnRequest(turn_id=TurnId("turn_1"), message_id=MessageId("m1"), timestamp=10)
END = TurnResponse(
    turn_id=TurnId("turn_1"),
    message_id=MessageId("m1"),
    outcome="completed",
    stop_reason="end_turn",
    duration=15,
    usage=USAGE,
    timestamp=25,
)


def of(image: Image, *told: EventData) -> list[Event]:
    scope = Scope(container_id=image.container_id, image_id=image.image_id, session_id=image.session_id)
    return [Event(data=data, scope=scope, timestamp=30, tenant_id=DEFAULT_TENANT) for data in told]


async def test_messages_and_turns_are_stored_the_rest_is_not() -> None:
    async with open_world(ScriptedDriver()) as world:
        recorder = StoreRecorder(world.store)
        await recorder.record(of(world.image, UserMessage(message=HELLO), BEGIN, TextDelta(text="x")))
        await recorder.record(of(world.image, TextDelta(text="x"), SilentMessage(message=EMPTY), END))
        assert await world.messages() == (HELLO, EMPTY)
        assert await world.turns() == (
            Turn(
                turn_id=TurnId("turn_1"),
                container_id=world.image.container_id,
                image_id=world.image.image_id,
                session_id=world.image.session_id,
                message_id=MessageId("m1"),
                accepted_at=10,
                outcome="completed",
                usage=USAGE,
                ended_at=25,
            ),
        )


async def test_what_stores_nothing_does_not_touch_the_store() -> None:
    async with open_world(ScriptedDriver()) as world:
        told = ContainerCreated(container_id=ContainerId("c1"), created_at=1)
        await StoreRecorder(world.store).record(of(world.image, told, TextDelta(text="x")))
        await StoreRecorder(world.store).record([])
        assert await world.messages() == ()


async def test_a_message_without_a_session_is_stored_nowhere_and_a_turn_without_one_is_a_bug() -> None:
    async with open_world(ScriptedDriver()) as world:
        recorder = StoreRecorder(world.store)
        lost = Event(data=UserMessage(message=HELLO), scope=Scope(), timestamp=1, tenant_id=DEFAULT_TENANT)
        await recorder.record([lost])
        assert await world.messages() == ()
        with pytest.raises(ValueError, match="turn_1"):
            await recorder.record([Event(data=BEGIN, scope=Scope(), timestamp=1, tenant_id=DEFAULT_TENANT)])


async def test_a_session_that_is_gone_takes_nothing() -> None:
    async with open_world(ScriptedDriver()) as world:
        scope = Scope(container_id=world.image.container_id, session_id=SessionId("sess_gone"))
        event = Event(data=UserMessage(message=HELLO), scope=scope, timestamp=1, tenant_id=DEFAULT_TENANT)
        with pytest.raises(SessionNotFound):
            await StoreRecorder(world.store).record([event])


async def test_exactly_what_is_stored_is_durable() -> None:
    async with open_world(ScriptedDriver()) as world:
        told = of(world.image, UserMessage(message=HELLO), SilentMessage(message=EMPTY), BEGIN, END, TextDelta(text="x"))
        assert [is_durable(event) for event in told] == [True, True, True, True, False]
