"""A turn of a node takes as many commits as on a server alone, though other nodes may have changed its history."""

from collections.abc import Sequence
from typing import Any

import pytest
from tests.cluster.conftest import Gate
from tests.cluster.talking import Talker
from tests.conformance.memories import memory

from agentvm.drivers.scripted import last_user_text
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.storage.base import Committed, SessionWrite
from agentvm.storage.sql.store import Store
from agentvm.vm import AgentVM

Nodes = tuple[AgentVM, AgentVM]


def likes(number: int) -> str:
    return f"likes the number {number}."


async def test_the_commit_that_accepts_a_message_announces_the_call_of_the_model(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Talker(nodes[0])
    image_id, session_id = await a.create()
    a.listen(session_id)
    await a.send(image_id, "first")
    await a.until("turn_response")
    accepting: list[bool] = []
    commit = Store.commit

    async def note(store: Store, writes: Sequence[SessionWrite], **more: Any) -> Committed:
        accepting.extend(bool(write.asked) for write in writes if any(turn.outcome is None for turn in write.turns))
        return await commit(store, writes, **more)

    monkeypatch.setattr(Store, "commit", note)
    for number in range(2, 5):
        await a.send(image_id, f"turn {number}")
        await a.until("turn_response", number)
    assert accepting == [True] * 3


async def test_a_model_is_told_what_another_node_has_added_just_before(nodes: Nodes, gate: Gate) -> None:
    a, b = map(Talker, nodes)
    image_id, session_id = await a.create()
    a.listen(session_id)
    for number, talker in enumerate((a, b, a, b), 1):
        await talker.send(image_id, f"turn {number}")
        await a.until("turn_response", number)
        home = nodes[number % 2].store.tenant(DEFAULT_TENANT).container(ContainerId("home"))
        await home.memories.put(memory(number, likes(number)))
    told = [repr(prompt.conversation) for prompt in gate.asked]
    for number in range(4):
        assert last_user_text(gate.asked[number]) == f"turn {number + 1}"
        assert all(f"turn {before}:4" in told[number] for before in range(1, number + 1))
        assert all(likes(before) in told[number] for before in range(1, number + 1))
