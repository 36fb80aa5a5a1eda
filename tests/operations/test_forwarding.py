"""A command about a session that another node runs is carried out there, and its reply and its errors are the same."""

import anyio
import pytest
from tests.cluster.conftest import Gate, gate, nodes, open_node
from tests.cluster.talking import Talker

from agentvm.errors import AgentBusy
from agentvm.errors.cluster import NodeSilent
from agentvm.model.ids import AgentId, ImageId, SessionId, TurnId
from agentvm.operations import forwarding
from agentvm.operations.agent import AgentDestroy, AgentGet, AgentInterrupt, AgentList
from agentvm.operations.forwarding import FORWARDED
from agentvm.operations.image import ImageGet, ImageList, ImageRun
from agentvm.operations.table import BY_NAME
from agentvm.vm import AgentVM

__all__ = ["gate", "nodes", "open_node"]


async def test_a_message_waits_behind_a_turn_that_runs_on_another_node(
    nodes: tuple[AgentVM, AgentVM],
    gate: Gate,
) -> None:
    a, b = map(Talker, nodes)
    image_id, _ = await a.create()
    await a.send(image_id, "hold it")
    await a.until("text_delta")
    sent = await b.send(image_id, "and then", client_message_id="k1")
    again = await b.send(image_id, "and then", client_message_id="k1")
    assert (again.turn_id, again.message_id) == (sent.turn_id, sent.message_id)
    gate.opened.set()
    heard = await a.until("turn_response", 2)
    assert [event["context"]["turnId"] for event in heard if event["type"] == "turn_response"][1] == sent.turn_id
    # It was subscribed here before it was asked there.
    assert (await b.until("turn_response", 2))[-1]["context"]["turnId"] == sent.turn_id
    turn = await nodes[1].store.tenant(b.peer.tenant_id).find_turn(TurnId(str(sent.turn_id)))
    assert turn is not None
    assert turn.outcome == "completed"


async def test_a_message_that_waits_long_for_its_commit_is_neither_cut_off_nor_refused(
    nodes: tuple[AgentVM, AgentVM], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "FORWARD_TIMEOUT_SECONDS", 0.0)
    talker = Talker(nodes[0])
    image_id, _ = await talker.create()
    sent = await talker.send(image_id, "hello")
    assert (await talker.until("turn_response"))[-1]["context"]["turnId"] == sent.turn_id


async def test_a_message_without_a_key_is_not_sent_again_when_its_node_falls_silent_and_one_with_a_key_is(
    nodes: tuple[AgentVM, AgentVM], gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = map(Talker, nodes)
    image_id, _ = await a.create()
    await a.send(image_id, "hold it")
    await a.until("text_delta")
    assert nodes[1].mailbox is not None
    ask, asked = nodes[1].mailbox.ask, list[int]()

    async def lose_the_first_answer(node_id: int, body: bytes) -> bytes:
        asked.append(node_id)
        answer = await ask(node_id, body)
        if len(asked) == 1:
            raise NodeSilent("It has accepted the message, and ended")
        return answer

    monkeypatch.setattr(nodes[1].mailbox, "ask", lose_the_first_answer)
    with pytest.raises(NodeSilent, match="may have accepted the message"):
        await b.send(image_id, "and then")
    assert len(asked) == 1
    asked.clear()
    sent = await b.send(image_id, "at last", client_message_id="k1")
    gate.opened.set()
    heard = [event for event in await a.until("turn_response", 3) if event["type"] == "user_message"]
    assert [event["data"]["content"] for event in heard] == ["hold it", "and then", "at last"]
    assert heard[-1]["context"]["turnId"] == sent.turn_id


async def test_an_agent_that_runs_on_another_node_is_listed_shown_and_online(
    nodes: tuple[AgentVM, AgentVM], gate: Gate
) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    assert not (await b.ask(ImageList(container_id="home"))).records[0].online
    sent = await a.send(image_id, "hold it")
    await a.until("text_delta")
    agent_id = AgentId(sent.agent_id)
    # Idle on this node, where an earlier turn ran; it works on the other.
    await b.ask(ImageRun(image_id=ImageId(image_id)))
    (listed,) = (await b.ask(AgentList(container_id="home"))).agents
    assert (listed.agent_id, listed.session_id, listed.state) == (agent_id, session_id, "running")
    assert (await b.ask(AgentGet(agent_id=agent_id))).state == "running"
    await b.ask(AgentDestroy(agent_id=agent_id))
    assert (await b.ask(AgentList(container_id="home"))).agents == ()
    assert not (await b.ask(AgentGet(agent_id=agent_id))).exists
    again = await a.send(image_id, "hold it")
    seen = (await b.ask(ImageGet(image_id=ImageId(image_id)))).record
    assert seen is not None
    assert (seen.online, seen.agent_id) == (True, again.agent_id)
    gate.opened.set()
    await a.until("turn_response", 2)


async def test_a_turn_is_stopped_from_another_node(nodes: tuple[AgentVM, AgentVM]) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    await a.send(image_id, "hold it")
    await a.until("text_delta")
    reply = await b.ask(AgentInterrupt(image_id=ImageId(image_id), session_id=SessionId(session_id)))
    assert reply.agent_id is not None
    ended = (await a.until("turn_response"))[-1]
    assert ended["data"]["outcome"] == "interrupted"


async def test_a_refusal_of_another_node_keeps_its_code(
    nodes: tuple[AgentVM, AgentVM],
    gate: Gate,
) -> None:
    a, b = map(Talker, nodes)
    image_id, _ = await a.create()
    await a.send(image_id, "hold it")
    await a.until("text_delta")
    with pytest.raises(AgentBusy, match="Another turn is running"), anyio.fail_after(60):
        await b.send(image_id, "too early", on_busy="reject")
    gate.opened.set()
    await a.until("turn_response")


def test_what_is_forwarded_are_operations_and_the_answer_to_a_wait_is_among_them() -> None:
    assert FORWARDED <= BY_NAME.keys()
    assert "tool.answer" in FORWARDED
