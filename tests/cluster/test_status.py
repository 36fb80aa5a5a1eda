"""Every node lists all of them, with what each runs."""

import anyio
from tests.cluster.conftest import Gate
from tests.cluster.talking import Talker

from agentvm.operations.cluster import ClusterNodes
from agentvm.operations.cluster import nodes as list_nodes
from agentvm.operations.context import context_of
from agentvm.operations.operation import Empty
from agentvm.vm import AgentVM


async def test_both_nodes_are_listed_with_what_each_runs(nodes: tuple[AgentVM, AgentVM], gate: Gate) -> None:
    a, b = map(Talker, nodes)
    image_id, _ = await a.create()
    await a.send(image_id, "hold it")
    told: ClusterNodes
    with context_of(b.peer) as context, anyio.fail_after(60):
        told = await list_nodes(context, Empty())
    assert [(node.name, node.state, node.runs, node.is_asked, node.is_leading) for node in told.nodes] == [
        ("a", "up", 1, False, True),
        ("b", "up", 0, True, False),
    ]
    assert (told.is_shared, told.database.engine, told.database.standbys) == (True, "postgresql", 0)
    gate.opened.set()
    await a.until("turn_response")
