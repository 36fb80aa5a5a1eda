import anyio
import pytest

from agentvm.protocol.link import WireEvent
from agentvm.runtime.observer import BACKLOG_MAX, Observer


def event(kind: str, number: int = 0) -> WireEvent:
    return WireEvent(type=kind, timestamp=number)


def test_handlers_hear_their_type_in_the_order_they_were_added_and_the_star_hears_all() -> None:
    observer = Observer()
    heard: list[str] = []
    observer.on("*", lambda one: heard.append(f"* {one.type}"))
    observer.on("a", lambda one: heard.append("first"))
    observer.on("a", lambda one: heard.append("second"))
    observer.react(event("a"))
    observer.react(event("b"))
    assert heard == ["first", "second", "* a", "* b"]


def test_who_unsubscribes_hears_nothing_more_and_may_do_so_twice_or_while_being_called() -> None:
    observer = Observer()
    heard: list[str] = []
    stop_other = observer.on("a", lambda one: heard.append("other"))

    def once(one: WireEvent) -> None:
        heard.append("once")
        stop()
        stop()

    stop = observer.on("a", once)
    observer.react(event("a"))
    stop_other()
    observer.react(event("a"))
    assert heard == ["other", "once"]


def test_the_same_handler_added_twice_is_called_twice() -> None:
    observer = Observer()
    heard: list[str] = []

    def handler(one: WireEvent) -> None:
        heard.append(one.type)

    stop = observer.on("a", handler)
    observer.on("a", handler)
    observer.react(event("a"))
    stop()
    observer.react(event("a"))
    assert len(heard) == 3


async def test_iterators_get_every_event_from_entering_on() -> None:
    observer = Observer()
    observer.react(event("before"))
    async with observer.events() as events:
        observer.react(event("a", 1))
        observer.react(event("b", 2))
        observer.end_streams()
        with anyio.fail_after(60):
            assert [one.type async for one in events] == ["a", "b"]
    observer.react(event("after"))


async def test_an_iterator_too_far_behind_is_ended_and_the_others_go_on() -> None:
    observer = Observer()
    async with observer.events() as slow, observer.events() as quick:
        for number in range(BACKLOG_MAX + 1):
            observer.react(event("a", number))
            with anyio.fail_after(60):
                assert (await anext(quick)).timestamp == number
        with anyio.fail_after(60):
            assert len([one async for one in slow]) == BACKLOG_MAX


async def test_an_iterator_its_owner_closed_is_forgotten() -> None:
    observer = Observer()
    async with observer.events() as events:
        events.close()
        observer.react(event("a"))
        observer.react(event("b"))


def test_an_exception_in_a_handler_is_its_owners() -> None:
    observer = Observer()

    def broken(one: WireEvent) -> None:
        raise ZeroDivisionError

    observer.on("a", broken)
    with pytest.raises(ZeroDivisionError):
        observer.react(event("a"))
