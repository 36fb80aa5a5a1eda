"""A node that is stopped hands its turns over, and others go on with them at once."""

from collections.abc import Sequence

import anyio
import pytest
from tests.cluster.conftest import LEASE_SECONDS, Gate
from tests.cluster.talking import Talker
from tests.server.http.fixtures import request

from agentvm.cluster.membership import BEAT_FACTOR
from agentvm.errors import NotFound
from agentvm.model.ids import TenantId
from agentvm.model.turn import Turn
from agentvm.operations.cluster import DrainedNode, DrainNode
from agentvm.operations.context import context_of
from agentvm.operations.gate import execute
from agentvm.operations.table import BY_NAME
from agentvm.server.serving import Listener
from agentvm.vm import AgentVM


async def test_turns_of_a_node_that_is_drained_go_on_before_the_next_beat(nodes: tuple[AgentVM, AgentVM], gate: Gate) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    b.listen(session_id)
    await a.send(image_id, "hold it")
    await b.until("text_delta")
    began = anyio.current_time()
    await nodes[0].runtime.drain(0)
    gate.opened.set()
    heard = await b.until("turn_response")
    assert anyio.current_time() - began < LEASE_SECONDS * BEAT_FACTOR
    assert b.cursors() == list(range(1, len(heard) + 1))
    assert [event["type"] for event in heard if event["type"] in ("turn_suspended", "turn_resumed", "turn_response")] == [
        "turn_suspended",
        "turn_resumed",
        "turn_response",
    ]


async def test_a_message_that_comes_while_a_turn_is_taken_over_is_answered_after_it(
    nodes: tuple[AgentVM, AgentVM], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    b.listen(session_id)
    await a.send(image_id, "hold it")
    await b.until("text_delta")
    read_homes, texts = nodes[1].store.read_homes, ["last"]

    async def read_slowly(turns: Sequence[tuple[TenantId, Turn]]) -> object:
        homes = await read_homes(turns)
        if nodes[1].runtime.journal.claimed():
            # The session is this node's, so the message is accepted.
            texts.append("next")
            await b.send(image_id, "next")
        return homes

    monkeypatch.setattr(nodes[1].store, "read_homes", read_slowly)
    await nodes[0].runtime.drain(0)
    gate.opened.set()
    await b.send(image_id, "last")
    await b.until("turn_response", 1 + len(texts))
    begun, ended = (
        [event["data"]["turnId"] for event in b.heard if event["type"] == kind] for kind in ("turn_request", "turn_response")
    )
    assert ended == begun


async def drain(asked: AgentVM, request: DrainNode) -> DrainedNode:
    with anyio.fail_after(60), context_of(Talker(asked).peer) as context:
        drained: DrainedNode = await execute(BY_NAME["cluster.drain"], context, request)
        context.finish()
        return drained


async def test_a_node_is_told_by_another_to_stop(nodes: tuple[AgentVM, AgentVM]) -> None:
    a, b = nodes
    drained = await drain(a, DrainNode(node_id=b.store.node_id, grace_seconds=2.5))
    assert drained.node_id == b.store.node_id
    with anyio.fail_after(60):
        await b.leaving.wait()
    assert b.grace_seconds == 2.5
    assert not a.leaving.is_set()


async def test_a_node_is_told_to_stop_over_http_by_its_number(nodes: tuple[AgentVM, AgentVM]) -> None:
    a, b = nodes
    app = Listener(a).app
    json = [(b"content-type", b"application/json"), (b"host", b"localhost")]
    with anyio.fail_after(60):
        drained = await request(app, "POST", f"/v1/cluster/nodes/{b.store.node_id}/drain", json, b"{}")
        assert (drained.status, drained.body) == (200, {"nodeId": b.store.node_id})
        await b.leaving.wait()
    assert not a.leaving.is_set()
    wrong = await request(app, "POST", "/v1/cluster/nodes/first/drain", json, b"{}")
    assert (wrong.status, wrong.body["error"]["code"]) == (400, "invalid_input")


async def test_a_node_that_is_not_up_cannot_be_stopped(nodes: tuple[AgentVM, AgentVM]) -> None:
    with pytest.raises(NotFound, match="No node 999 is up"):
        await drain(nodes[0], DrainNode(node_id=999))
