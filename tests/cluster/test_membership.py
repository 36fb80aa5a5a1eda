"""A node renews its lease, judges others only when it can know, and ends when it was judged itself."""

from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import pytest

from agentvm.cluster.membership import Membership, after_each_end, open_membership, while_leading
from agentvm.errors import StoreFailed
from agentvm.errors.cluster import NodeFenced
from agentvm.model.node import NodeReport
from agentvm.storage.sql.nodes import Beat, NodeRow, NodeStore

LEASE = 0.04


@dataclass
class FakeNodes:
    """A database in which the second of two nodes has not renewed its lease."""

    node_id: int = 1
    beats: int = 0
    fails: int = 0
    dead: bool = False
    judged: list[tuple[int, int]] = field(default_factory=list)
    left: bool = False
    rewinds: int = 0

    async def renew(self, lease_ms: int, report: NodeReport) -> Beat | None:
        self.beats += 1
        if self.fails:
            self.fails -= 1
            raise StoreFailed("no database")
        return None if self.dead else Beat(self.beats - self.rewinds, 1_000)

    async def list_all(self) -> tuple[NodeRow, ...]:
        state = "dead" if self.judged else "up"
        return (row(1, "up", -10), row(2, cast(Any, state), 10))

    async def judge(self, node_id: int) -> bool:
        self.judged.append((node_id, self.beats))
        return True

    async def leave(self) -> None:
        self.left = True


def row(node_id: int, state: Any, late_ms: int) -> NodeRow:
    return NodeRow(node_id, f"n{node_id}", "1", state, 0, late_ms, 1_000, 0)


def member(nodes: FakeNodes, clock: int = 1_000) -> Membership:
    return Membership(cast(NodeStore, nodes), lease_seconds=LEASE, clock=lambda: clock)


async def until(done: Any) -> None:
    with anyio.fail_after(60):
        while not done():  # noqa: ASYNC110  # the fake tells nobody
            await anyio.sleep(0.001)


async def test_others_are_judged_only_after_a_whole_lease_of_ones_own() -> None:
    nodes = FakeNodes()
    async with open_membership(cast(NodeStore, nodes), lease_seconds=LEASE, clock=lambda: 1_000):
        await until(lambda: nodes.judged)
    ((node_id, beats),) = nodes.judged
    assert node_id == 2
    assert beats >= 3
    assert nodes.left


async def test_after_an_outage_of_the_database_the_wait_begins_anew() -> None:
    nodes = FakeNodes(fails=5)
    async with open_membership(cast(NodeStore, nodes), lease_seconds=LEASE, clock=lambda: 1_000):
        await until(lambda: nodes.judged)
    assert nodes.judged[0][1] >= 5 + 3


async def test_a_node_that_was_declared_dead_ends() -> None:
    nodes = FakeNodes(dead=True)
    with pytest.raises(NodeFenced), anyio.fail_after(60):
        async with open_membership(cast(NodeStore, nodes), lease_seconds=LEASE, clock=lambda: 1_000) as membership:
            await membership.watch()
    assert membership.hindrance == "declared dead by the other nodes"


async def test_a_node_whose_database_went_back_in_time_ends() -> None:
    nodes = FakeNodes()
    membership = member(nodes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(membership.run)
        await until(lambda: nodes.beats == 3)
        nodes.rewinds = 10
        with anyio.fail_after(60):
            await membership.fenced.wait()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("clock", "says"), [(1_000, None), (5_000, None), (40_000, "39 s")])
async def test_a_clock_that_is_far_off_makes_the_node_not_ready(clock: int, says: str | None) -> None:
    membership = Membership(cast(NodeStore, FakeNodes()), lease_seconds=600, clock=lambda: clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(membership.run)
        with anyio.fail_after(60):
            await membership.wait_beat()
        tasks.cancel_scope.cancel()
    assert (says is None and membership.hindrance is None) or (says is not None and says in str(membership.hindrance))


async def test_a_node_that_the_database_takes_nothing_from_for_a_lease_takes_no_new_work_until_it_does() -> None:
    nodes = FakeNodes()
    membership = member(nodes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(membership.run)
        await until(lambda: nodes.beats == 1)
        nodes.fails = 1_000_000
        await until(lambda: "has taken nothing" in str(membership.hindrance))
        nodes.fails = 0
        await until(lambda: membership.hindrance is None)
        tasks.cancel_scope.cancel()


async def test_one_node_does_what_is_done_for_all_and_another_follows_when_it_ends() -> None:
    membership = member(FakeNodes(node_id=2))
    membership.rows = (row(1, "up", 0), row(2, "up", 0))
    began = anyio.Event()

    async def job() -> None:
        began.set()
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(while_leading, membership, job)
        await anyio.wait_all_tasks_blocked()
        assert not began.is_set()
        membership.rows = (row(1, "dead", 0), row(2, "up", 0))
        membership.note_beat()
        with anyio.fail_after(60):
            await began.wait()
        tasks.cancel_scope.cancel()


async def test_what_others_have_left_is_looked_for_whenever_one_has_ended_and_not_when_one_comes() -> None:
    membership = member(FakeNodes())
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(after_each_end, membership, look)
        for up, expected in (([1], 1), ([1, 2, 3], 1), ([1, 3], 2), ([1, 3], 2), ([1, 4], 3), ([1], 4)):
            membership.rows = tuple(row(node_id, "up", 0) for node_id in up)
            membership.note_beat()
            await anyio.wait_all_tasks_blocked()
            assert looks == expected
        tasks.cancel_scope.cancel()


async def test_a_node_that_was_frozen_learns_that_it_is_dead_before_it_answers() -> None:
    nodes = FakeNodes(fails=1)
    membership = member(nodes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(membership.run)
        with anyio.fail_after(60):
            await membership.confirm()
            assert nodes.beats > 1
            nodes.dead = True
            with pytest.raises(NodeFenced):
                await membership.confirm()
        tasks.cancel_scope.cancel()
