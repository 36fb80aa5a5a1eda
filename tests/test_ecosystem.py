from collections.abc import Sequence

import msgspec

from agentvm.ecosystem import Ecosystem
from agentvm.events.base import Event, EventScope
from agentvm.events.stream import TextDelta, ThinkingDelta
from agentvm.model.ids import DEFAULT_TENANT


def said(text: str) -> Event:
    return Event(data=TextDelta(text=text), scope=EventScope(), timestamp=1, tenant_id=DEFAULT_TENANT)


class Peers:
    """A receptor that writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def broadcast(self, events: Sequence[Event]) -> None:
        self.heard += events


class Listener:
    """An effector that writes down what it hears."""

    kinds = (TextDelta,)

    def __init__(self, name: str, log: list[tuple[str, str]]) -> None:
        self.name, self.log = name, log

    def react(self, event: Event) -> None:
        if isinstance(event.data, TextDelta):
            self.log.append((self.name, event.data.text))


def test_each_event_goes_to_every_effector_before_the_next_one() -> None:
    log: list[tuple[str, str]] = []
    Ecosystem(Peers(), [Listener("one", log), Listener("two", log)]).broadcast([said("a"), said("b")])
    assert log == [("one", "a"), ("two", "a"), ("one", "b"), ("two", "b")]


def test_peers_hear_everything_and_an_effector_its_kinds() -> None:
    log: list[tuple[str, str]] = []
    peers, thought = Peers(), msgspec.structs.replace(said("b"), data=ThinkingDelta(text="b"))
    Ecosystem(peers, [Listener("one", log)]).broadcast([said("a"), thought])
    assert log == [("one", "a")]
    assert peers.heard == [said("a"), thought]
