"""Every node lists all of them, with what each runs."""

import anyio
from tests.cluster.conftest import Gate
from tests.cluster.talking import Talker

from agentvm.model.ids import SessionId
from agentvm.operations.cluster import ClusterNodes
from agentvm.operations.cluster import nodes as list_nodes
from agentvm.operations.context import context_of
from agentvm.operations.operation import Empty
from agentvm.operations.pages import Page
from agentvm.operations.turn import TurnList, TurnRow
from agentvm.operations.turn import list_all as list_turns
from agentvm.vm import AgentVM


async def running_on(talker: Talker, session_id: str) -> list[int | None]:
    """The nodes of the turns of a session, as they are listed."""
    with context_of(talker.peer) as context, anyio.fail_after(60):
        page: Page[TurnRow] = await list_turns(context, TurnList(session_id=SessionId(session_id)))
        return [turn.node_id for turn in page.items]


async def test_both_nodes_are_listed_with_what_each_runs(nodes: tuple[AgentVM, AgentVM], gate: Gate) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    await a.send(image_id, "hold it")
    told: ClusterNodes
    with context_of(b.peer) as context, anyio.fail_after(60):
        told = await list_nodes(context, Empty())
    assert [(node.name, node.state, node.runs, node.is_asked, node.is_leading) for node in told.nodes] == [
        ("a", "up", 1, False, True),
        ("b", "up", 0, True, False),
    ]
    assert (told.is_shared, told.database.engine, told.database.standbys) == (True, "postgresql", 0)
    assert await running_on(b, session_id) == [nodes[0].store.node_id]
    a.listen(session_id, 0)
    gate.opened.set()
    await a.until("turn_response")
    assert await running_on(b, session_id) == [None]
