import threading
from threading import Event

import anyio
import pytest

from agentvm.errors import ToolFailed
from agentvm.sharing.own_thread import run_in_own_thread

ENDED: list[str] = []


def note() -> None:
    ENDED.append("ended")


@pytest.fixture(autouse=True)
def nothing_ended() -> None:
    ENDED.clear()


async def test_the_result_comes_back_when_the_thread_has_ended() -> None:
    assert await run_in_own_thread("sum", lambda: 1 + 1, note) == 2
    assert ENDED == ["ended"]


async def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    def fail() -> None:
        raise ToolFailed("no such thing")

    with pytest.raises(ToolFailed, match="no such thing"):
        await run_in_own_thread("work", fail, note)
    assert ENDED == ["ended"]


async def test_a_bug_of_the_work_is_an_error_and_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", shown.append)
    with pytest.raises(RuntimeError, match="count has failed"):
        await run_in_own_thread("count", lambda: [][0], note)
    assert ENDED == ["ended"]
    with anyio.fail_after(60):
        while not shown:  # noqa: ASYNC110 - the thread shows it last
            await anyio.sleep(0.001)
    assert shown[0].exc_type is IndexError


async def test_who_gives_up_is_not_kept_and_the_end_of_the_thread_is_told_all_the_same() -> None:
    go, ended = Event(), anyio.Event()
    with anyio.fail_after(60):
        with anyio.move_on_after(0.01) as given_up:
            await run_in_own_thread("wait", lambda: go.wait(60), ended.set)
        assert (given_up.cancelled_caught, ended.is_set()) == (True, False)
        go.set()
        await ended.wait()
