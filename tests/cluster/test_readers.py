"""A client with an id comes back to another node while its last socket still lives: it continues where it was."""

import anyio
from tests.cluster.talking import Talker
from tests.server.browser import CLIENT

from agentvm.model.ids import SessionId
from agentvm.server.readers import Reader, Readers, attach_reader
from agentvm.vm import AgentVM

Nodes = tuple[AgentVM, AgentVM]


async def enter(house: Readers, vm: AgentVM) -> Reader:
    reader = attach_reader(vm, CLIENT)
    with anyio.fail_after(60):
        await house.enter(reader)
    return reader


async def follow(house: Readers, vm: AgentVM) -> tuple[Reader, SessionId]:
    """A reader of a session that has heard its fifth event."""
    talker = Talker(vm)
    image_id, session_id = await talker.create()
    talker.listen(session_id)
    await talker.send(image_id, "hello")
    await talker.until("turn_response")
    reader = await enter(house, vm)
    reader.peer.listen("home", session_id, 5)  # type: ignore[arg-type]  # an id
    reader.acks.begin(SessionId(session_id), 5)
    return reader, SessionId(session_id)


async def test_a_client_that_moves_between_nodes_continues_where_it_was_on_the_last(on_bus: Nodes) -> None:
    a, b = on_bus
    first, second = Readers(a.mailbox), Readers(b.mailbox)
    old, session_id = await follow(first, a)
    moved = await enter(second, b)
    assert {one: place.seq for one, place in moved.places.items()} == {session_id: 5}
    # And back, though the old socket never said that it was gone.
    assert {one: place.seq for one, place in (await enter(first, a)).places.items()} == {session_id: 5}
    await first.leave(old)
    assert await a.attach().store.take_reader(CLIENT) == {}, "a socket that was left is no reader any more"


async def test_a_client_does_not_wait_for_a_node_that_is_not_heard(nodes: Nodes) -> None:
    a, b = nodes
    first, second = Readers(a.mailbox), Readers(b.mailbox)
    await follow(first, a)
    assert (await enter(second, b)).places == {}
