"""A node asks another and gets its answer; one that has ended is not waited for."""

import anyio
import pytest

from agentvm.cluster.mailbox import OPERATION, Mailbox
from agentvm.errors.cluster import NodeFenced, NodeSilent
from agentvm.vm import AgentVM


def box(vm: AgentVM) -> Mailbox:
    assert vm.mailbox is not None
    return vm.mailbox


async def test_each_question_is_answered_once_and_what_follows_comes_after_the_answer_is_stored(
    nodes: tuple[AgentVM, AgentVM],
) -> None:
    a, b = nodes
    served: list[bytes] = []
    done: list[bytes] = []

    async def serve(body: bytes) -> tuple[bytes, object]:
        served.append(body)
        return body.upper(), lambda: done.append(body)

    box(b).serving[OPERATION] = serve  # type: ignore[assignment]
    with anyio.fail_after(60):
        assert await box(a).ask(b.store.node_id, b"one") == b"ONE"
        assert await box(a).ask(b.store.node_id, b"two") == b"TWO"
    assert served == done == [b"one", b"two"]


async def test_an_answer_counts_although_its_row_cannot_be_dropped(
    nodes: tuple[AgentVM, AgentVM], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(body: bytes) -> tuple[bytes, object]:
        return body.upper(), lambda: None

    async def refuse(row: int) -> None:
        raise NodeFenced("This node was declared dead")

    a, b = nodes
    box(b).serving[OPERATION] = serve  # type: ignore[assignment]
    monkeypatch.setattr(box(a)._asks, "drop", refuse)
    with anyio.fail_after(60):
        assert await box(a).ask(b.store.node_id, b"one") == b"ONE"


async def test_a_node_that_has_ended_is_not_waited_for(nodes: tuple[AgentVM, AgentVM]) -> None:
    with anyio.fail_after(60), pytest.raises(NodeSilent):
        await box(nodes[0]).ask(999, b"anybody?")
