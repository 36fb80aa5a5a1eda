from collections.abc import Sequence

import pytest

from agentvm.ecosystem import Ecosystem
from agentvm.errors import StoreFailed
from agentvm.events.base import Event, Scope
from agentvm.events.stream import TextDelta
from agentvm.model.ids import DEFAULT_TENANT

pytestmark = pytest.mark.anyio


def said(text: str) -> Event:
    return Event(data=TextDelta(text=text), scope=Scope(), timestamp=1, tenant_id=DEFAULT_TENANT)


class Log:
    """A recorder and effector that write down what they get."""

    def __init__(self, name: str, log: list[tuple[str, str]], *, fails: bool = False) -> None:
        self.name, self.log, self.fails = name, log, fails

    async def record(self, events: Sequence[Event]) -> None:
        if self.fails:
            raise StoreFailed("the disk is full")
        self.log += [(self.name, event.data.text) for event in events if isinstance(event.data, TextDelta)]

    def react(self, event: Event) -> None:
        if isinstance(event.data, TextDelta):
            self.log.append((self.name, event.data.text))


async def test_a_batch_is_stored_before_anybody_is_told_and_told_in_order() -> None:
    log: list[tuple[str, str]] = []
    ecosystem = Ecosystem(Log("store", log), [Log("one", log), Log("two", log)])
    await ecosystem.emit([said("a"), said("b")])
    assert log == [("store", "a"), ("store", "b"), ("one", "a"), ("two", "a"), ("one", "b"), ("two", "b")]


async def test_what_cannot_be_stored_is_told_to_nobody() -> None:
    log: list[tuple[str, str]] = []
    ecosystem = Ecosystem(Log("store", log, fails=True), [Log("one", log)])
    with pytest.raises(StoreFailed):
        await ecosystem.emit([said("a")])
    assert log == []


async def test_telling_stores_nothing() -> None:
    log: list[tuple[str, str]] = []
    Ecosystem(Log("store", log, fails=True), [Log("one", log)]).tell([said("a")])
    assert log == [("one", "a")]
