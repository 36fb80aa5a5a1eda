"""What each node knows alone is asked of all of them: each entry says whose it is, and who does not answer is named."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from tests.cluster.conftest import LEASE_SECONDS, Gate, gate, nodes, open_node

from agentvm.errors import InvalidInput, NotFound
from agentvm.model.principal import Principal
from agentvm.operations import across_nodes
from agentvm.operations.context import Context
from agentvm.operations.error import ErrorList
from agentvm.operations.error import list_all as list_errors
from agentvm.operations.log import LogEntries, LogList
from agentvm.operations.log import list_all as list_logs
from agentvm.operations.metric import ClusterMetrics, MetricsShow, StatusShow, show, status
from agentvm.vm import OPEN_ACCESS, AgentVM

__all__ = ["LEASE_SECONDS", "Gate", "gate", "nodes", "open_node"]

Nodes = tuple[AgentVM, AgentVM]


def context(vm: AgentVM, principal: Principal = OPEN_ACCESS) -> Context:
    return Context(vm=vm, workspace=vm.workspace(principal))


def write(vm: AgentVM, number: int) -> None:
    """An entry of one node: both are in one process here, whose log would go to both."""
    vm.logs.take("tests", "error", {"event": "counted", "code": "odd" if number % 2 else "even", "number": number})


async def find(vm: AgentVM, **fields: Any) -> LogEntries:
    found = await list_logs(context(vm), LogList(event="counted", **fields))
    assert isinstance(found, LogEntries)
    return found


@contextmanager
def frozen(vm: AgentVM, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A node that answers nothing."""
    assert vm.mailbox is not None

    async def never(_body: bytes) -> Any:
        await anyio.sleep_forever()

    kept = dict(vm.mailbox.serving)
    monkeypatch.setattr(across_nodes, "ANSWER_SECONDS", 0.1)
    vm.mailbox.serving.update(dict.fromkeys(kept, never))
    yield
    vm.mailbox.serving.update(kept)


async def test_the_entries_of_all_nodes_are_listed_page_by_page_each_once_and_with_its_node(nodes: Nodes) -> None:
    a, b = nodes
    for number in range(9):
        write(nodes[number % 2], number)
    seen: list[tuple[int | None, object]] = []
    cursor = None
    for _ in range(9):
        page = await find(b, nodes="all", limit=2, cursor=cursor)
        assert page.silent_nodes is None
        seen += [(entry.node_id, entry.facts["number"]) for entry in page.items]
        if (cursor := page.next_cursor) is None:
            break
    expected = [((a, b)[number % 2].store.node_id, number) for number in range(9)]
    assert sorted(seen, key=lambda one: str(one[1])) == expected
    only = await find(b, nodes=str(a.store.node_id))
    assert {entry.node_id for entry in only.items} == {a.store.node_id}
    # Without it as ever: those of the node that is asked.
    assert [entry.node_id for entry in (await find(b)).items] == [None] * 4


async def test_errors_of_all_nodes_are_counted_together(nodes: Nodes) -> None:
    for number in (1, 1, 2):
        write(nodes[number % 2], number)
    write(nodes[0], 1)
    found = await list_errors(context(nodes[0]), ErrorList(nodes="all"))
    groups = {group.code: (group.count, {*(group.nodes or ())}) for group in found.items if group.event == "counted"}
    a, b = (node.store.node_id for node in nodes)
    assert groups == {"odd": (3, {a, b}), "even": (1, {a})}


async def test_a_node_that_does_not_answer_is_named_and_the_others_are_shown(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = nodes
    write(a, 1)
    with frozen(b, monkeypatch):
        (silent,) = (page := await find(a, nodes="all")).silent_nodes or ()
        assert (silent.node_id, silent.name, len(page.items)) == (b.store.node_id, "b", 1)
        told = await status(context(a), StatusShow(nodes="all"))
        assert told.status != "ok"
        assert [(node.node_id, node.status is None) for node in told.nodes or ()] == [
            (a.store.node_id, False),
            (b.store.node_id, True),
        ]
        assert [check.node_id for check in told.checks if check.name == "node"] == [b.store.node_id]


async def test_metrics_and_status_of_each_node_are_shown_by_any(nodes: Nodes) -> None:
    ids = [node.store.node_id for node in nodes]
    shown = await show(context(nodes[1]), MetricsShow(nodes="all"))
    assert isinstance(shown, ClusterMetrics)
    assert [(node.node_id, node.metrics is not None) for node in shown.nodes] == [(node_id, True) for node_id in ids]
    told = await status(context(nodes[0]), StatusShow(nodes=str(ids[1])))
    assert [node.node_id for node in told.nodes or ()] == [ids[1]]
    assert {check.node_id for check in told.checks} == {ids[1]}


async def test_what_cannot_be_asked_is_refused(nodes: Nodes) -> None:
    with pytest.raises(NotFound, match="No node 99 is up"):
        await find(nodes[0], nodes="99")
    with pytest.raises(InvalidInput, match="stream"):
        await find(nodes[0], nodes="all", follow=True)
    for cursor in ("x", "1:2,x", "1", "1:-2", "1:" + "9" * 40):
        with pytest.raises(InvalidInput, match="cursor"):
            await find(nodes[0], nodes="all", cursor=cursor)
