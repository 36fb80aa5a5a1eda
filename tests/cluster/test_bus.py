"""A node is heard while its shouts come over the bus, and what is of no known kind is left alone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import anyio
import msgspec
import pytest

from agentvm.cluster.bus import ALL, Bus, Hearing, Here, Noticed, OnPayload
from agentvm.cluster.membership import Membership
from agentvm.storage.sql.nodes import NodeStore


@dataclass
class Wire:
    """Carries what one publishes to all others, at once."""

    buses: list["WiredBus"] = field(default_factory=list)


@dataclass
class WiredBus:
    """One end of a wire."""

    wire: Wire
    disturbed: int = 0
    is_up: bool = True
    connected: Callable[[], None] = lambda: None
    topics: dict[str, OnPayload] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.wire.buses.append(self)

    def publish(self, topic: str, body: bytes) -> bool:
        for other in self.wire.buses:
            if other is not self and other.is_up and self.is_up and topic in other.topics:
                other.topics[topic](body)
        return self.is_up

    def listen(self, topic: str, hear: OnPayload) -> None:
        self.topics[topic] = hear

    def unlisten(self, topic: str) -> None:
        self.topics.pop(topic, None)

    async def settle(self) -> bool:
        return self.is_up


@dataclass
class OneNode:
    """The part of a node store that a membership looks at before its first beat."""

    node_id: int


def hearing(wire: Wire, node_id: int, lease_seconds: float = 60) -> Hearing:
    nodes = cast(NodeStore, OneNode(node_id))
    return Hearing(cast(Bus, WiredBus(wire)), Membership(nodes, lease_seconds=lease_seconds, clock=lambda: 0))


async def test_nodes_that_come_one_after_the_other_hear_each_other_at_once() -> None:
    wire = Wire()
    a, b = hearing(wire, 1), hearing(wire, 2)
    assert a.is_heard(2)
    assert b.is_heard(1)
    assert not a.is_heard(3)


async def test_nobody_is_heard_without_the_bus() -> None:
    wire = Wire()
    a, b = hearing(wire, 1), hearing(wire, 2)
    wire.buses[0].is_up = False
    assert not a.is_heard(2)
    assert b.is_heard(1)


async def test_a_node_that_says_nothing_for_a_lease_is_not_heard_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    now = anyio.current_time()
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    wire = Wire()
    a, b = hearing(wire, 1, lease_seconds=10.0), hearing(wire, 2)
    now += 9.9
    assert a.is_heard(2)
    now += 0.2
    assert not a.is_heard(2)
    b.shout(Here(2))
    assert a.is_heard(2)


async def test_a_shout_of_notices_is_passed_on_and_nonsense_is_not() -> None:
    wire = Wire()
    a, b = hearing(wire, 1), hearing(wire, 2)
    heard: list[str] = []
    a.on("noticed", lambda: heard.append("noticed"))
    b.shout(Noticed(2))
    wire.buses[1].publish(ALL, b"nonsense")
    assert heard == ["noticed"]


class Moments:
    """A clock that is set by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr("agentvm.cluster.bus.anyio.current_time", lambda: self.now)


@pytest.mark.parametrize(
    ("numbers", "seconds", "losses"),
    [
        pytest.param((1, 2, 3), 0.5, 0, id="all of them come"),
        pytest.param((1, 2, 4, 5), 0.5, 1, id="one is lost"),
        pytest.param((1, 2, 3), 1.5, 2, id="each comes late"),
        pytest.param((0, 0, 0), 1.5, 0, id="an older version does not count them"),
    ],
)
async def test_beats_that_are_missing_or_late_show_that_more_may_be_lost(
    numbers: tuple[int, ...], seconds: float, losses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire, moments = Wire(), Moments(monkeypatch)
    a = hearing(wire, 1)
    before = a.bus.disturbed
    for number in numbers:
        WiredBus(wire).publish(ALL, msgspec.msgpack.encode(Here(2, number=number)))
        moments.now += seconds
    assert a.bus.disturbed - before == losses
