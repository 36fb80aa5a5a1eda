"""Over the bus the same is heard as from the database, at once; whatever is lost on it is found in the database."""

import signal
from collections.abc import Callable

import anyio
import pytest
from tests.cluster.conftest import LEASE_SECONDS, Gate, OpenNode, both_hear
from tests.cluster.talking import Talker
from tests.faults.process import until
from tests.provision.nats import Nats
from tests.provision.nats import nats as provide_nats

from agentvm.cluster import relay
from agentvm.cluster.bus import Bus
from agentvm.cluster.mailbox import OPERATION, Mailbox
from agentvm.errors import StoreFailed
from agentvm.operations.agent import AgentInterrupt
from agentvm.operations.session import SessionSetTitle
from agentvm.vm import AgentVM


def bus(vm: AgentVM) -> Bus:
    assert vm.hearing is not None
    return vm.hearing.bus


@pytest.fixture
def no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told that has not come over the bus: journals are not read any more."""

    async def refuse(*_: object) -> None:
        pytest.fail("a journal was read though its node is heard")

    monkeypatch.setattr(relay.EventRelay, "_read", refuse)


async def test_turns_of_another_node_are_heard_over_the_bus_alone(on_bus: tuple[AgentVM, AgentVM], no_reading: None) -> None:
    a, b = map(Talker, on_bus)
    image_id, session_id = await a.create()
    b.listen(session_id)
    for number in range(6):
        await (a, b)[number % 2].send(image_id, f"turn {number}")
        await a.until("turn_response", number + 1)
        await b.until("turn_response", number + 1)
    assert a.cursors() == b.cursors() == list(range(1, len(a.heard) + 1))
    assert [event["type"] for event in a.heard] == [event["type"] for event in b.heard]


async def test_a_lost_event_is_read_from_the_database_when_the_next_one_comes(
    on_bus: tuple[AgentVM, AgentVM], gate: Gate
) -> None:
    a, b = map(Talker, on_bus)
    image_id, session_id = await a.create()
    b.listen(session_id)
    await a.send(image_id, "first")
    await b.until("turn_response")
    with losing(on_bus[0]) as lost:
        await a.send(image_id, "hold it")
        await a.until("text_delta", 6)
        assert lost
    gate.opened.set()
    await a.until("turn_response", 2)
    await b.until("turn_response", 2)
    assert b.cursors() == a.cursors()


async def test_a_lost_last_event_is_found_after_the_next_beat(on_bus: tuple[AgentVM, AgentVM]) -> None:
    a, b = map(Talker, on_bus)
    image_id, session_id = await a.create()
    b.listen(session_id)
    await a.send(image_id, "first")
    await b.until("turn_response")
    with losing(on_bus[0]):
        await a.send(image_id, "second")
        await a.until("turn_response", 2)
    assert len(b.heard) < len(a.heard)
    # As when it was dropped for want of room: no gap shows it.
    bus(on_bus[0]).disturbed += 1
    await b.until("turn_response", 2)
    assert b.cursors() == a.cursors()


async def test_events_that_could_not_be_taken_in_are_read_from_the_database_without_a_further_event(
    on_bus: tuple[AgentVM, AgentVM], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = map(Talker, on_bus)
    image_id, session_id = await a.create()
    b.listen(session_id)
    await a.send(image_id, "first")
    await b.until("turn_response")
    failed: list[object] = []

    async def fail(*given: object) -> None:
        failed.append(given)
        raise StoreFailed("the database does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(relay.EventRelay, "_decode", fail)
        broken.setattr(relay.EventRelay, "_repair", fail)
        await a.send(image_id, "second")
        await a.until("turn_response", 2)
        await until(lambda: len(failed) > 3)
    await b.until("turn_response", 2)
    assert b.cursors() == a.cursors()


async def test_text_goes_on_long_before_a_lease_is_over_when_nats_freezes_in_the_middle_of_it(
    open_node: OpenNode, gate: Gate
) -> None:
    with provide_nats() as server:
        async with open_node("a", server.url) as first, open_node("b", server.url) as second:
            await both_hear(first, second)
            a, b = Talker(first), Talker(second)
            image_id, session_id = await a.create()
            b.listen(session_id)
            await a.send(image_id, "hold it")
            await b.until("text_delta")
            server.process.send_signal(signal.SIGSTOP)
            began = anyio.current_time()
            gate.opened.set()
            heard = await b.until("turn_response")
            assert anyio.current_time() - began < LEASE_SECONDS
            assert b.cursors() == list(range(1, len(heard) + 1))


async def test_a_node_with_nats_and_one_without_read_each_other_from_the_database(open_node: OpenNode, nats: Nats) -> None:
    async with open_node("a", nats.url) as a_node, open_node("b") as b_node:
        a, b = Talker(a_node), Talker(b_node)
        image_id, session_id = await a.create()
        a.listen(session_id)
        b.listen(session_id)
        await a.send(image_id, "first")
        await b.until("turn_response")
        await b.send(image_id, "second")
        await a.until("turn_response", 2)
        await b.until("turn_response", 2)
        assert a.cursors() == b.cursors() == list(range(1, len(a.heard) + 1))


async def test_a_message_to_another_node_ends_the_turn_that_was_heard_to_wait_for_an_approval(
    on_bus: tuple[AgentVM, AgentVM], no_reading: None
) -> None:
    a, b = map(Talker, on_bus)
    image_id, session_id = await a.create("delete")
    b.listen(session_id)
    await b.send(image_id, "first")
    await b.until("turn_response")
    await a.send(image_id, "delete it")
    await b.until("turn_parked")
    await b.send(image_id, "never mind")
    heard = await b.until("turn_response", 3)
    turns = [event["data"]["turnId"] for event in heard if event["type"] == "turn_request"]
    ended = [(event["data"]["turnId"], event["data"]["outcome"]) for event in heard if event["type"] == "turn_response"]
    assert ended == [(turns[0], "completed"), (turns[1], "interrupted"), (turns[2], "completed")]


async def test_a_title_is_told_on_the_other_node(on_bus: tuple[AgentVM, AgentVM]) -> None:
    a, b = map(Talker, on_bus)
    _, session_id = await a.create()
    b.peer.join("home", follow=True)  # type: ignore[arg-type]
    assert await bus(on_bus[1]).settle()
    await a.ask(SessionSetTitle(session_id=session_id, title="A new name"))  # type: ignore[arg-type]
    event = await b.until_aside("session_title_updated")
    assert event["data"]["title"] == "A new name"


async def test_a_stop_on_another_node_is_asked_over_the_bus_and_no_row_is_needed(
    on_bus: tuple[AgentVM, AgentVM], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        pytest.fail("a row was stored though the node is heard")

    monkeypatch.setattr(Mailbox, "_ask_by_row", refuse)
    a, b = map(Talker, on_bus)
    image_id, session_id = await a.create()
    await a.send(image_id, "hold it")
    await b.ask(AgentInterrupt(session_id=session_id, image_id=image_id))  # type: ignore[arg-type]
    ended = (await a.until("turn_response"))[-1]
    assert ended["data"]["outcome"] == "interrupted"


async def test_a_question_that_is_lost_on_the_bus_becomes_a_row_and_is_carried_out_once(
    on_bus: tuple[AgentVM, AgentVM], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentvm.cluster.mailbox.BUS_TIMEOUT_SECONDS", 0.2)
    a, b = on_bus
    assert a.mailbox is not None
    assert b.mailbox is not None
    served: list[bytes] = []

    async def serve(body: bytes) -> tuple[bytes, Callable[[], None]]:
        served.append(body)
        return body.upper(), lambda: None

    b.mailbox.serving[OPERATION] = serve
    with losing(a), anyio.fail_after(60):
        assert await a.mailbox.ask(b.store.node_id, b"question lost") == b"QUESTION LOST"
    with losing(b), anyio.fail_after(60):
        assert await a.mailbox.ask(b.store.node_id, b"answer lost") == b"ANSWER LOST"
    assert served == [b"question lost", b"answer lost"]


class losing:  # reads as a sentence
    """What a node publishes gets lost, until it is left."""

    def __init__(self, vm: AgentVM) -> None:
        self._bus = bus(vm)
        self.lost: list[bytes] = []

    def __enter__(self) -> list[bytes]:
        self._publish = self._bus.publish
        self._bus.publish = self._lose  # type: ignore[method-assign]
        return self.lost

    def _lose(self, topic: str, body: bytes) -> bool:
        self.lost.append(body)
        return True

    def __exit__(self, *_: object) -> None:
        self._bus.publish = self._publish  # type: ignore[method-assign]
