"""One tool at work: its deadline, its progress, and what becomes of one that does not stop."""

import anyio
import anyio.lowlevel
import pytest
from tests.simulation.loop import run_virtual

from agentvm.errors import ToolFailed
from agentvm.runtime.tasks import open_tasks
from agentvm.runtime.tool_task import CANCEL_SECONDS, ProgressReports, ToolTask
from agentvm.tools.base import CallProgress

pytestmark = pytest.mark.anyio


def test_progress_gives_a_tool_its_whole_time_again() -> None:
    async def main() -> str:
        async def work() -> str:
            for _ in range(4):
                await anyio.sleep(2)
                task.extend()
            return "done"

        task = ToolTask("slow", work, timeout_seconds=3, seconds_max=50, on_abandoned=pytest.fail)
        return await task.run()

    assert run_virtual(main()) == ("done", 8)


def test_progress_moves_the_deadline_no_further_than_the_most_of_any_call() -> None:
    async def main() -> float:
        async def work() -> None:
            while True:
                await anyio.sleep(2)
                task.extend()

        task = ToolTask("endless", work, timeout_seconds=3, seconds_max=5, on_abandoned=pytest.fail)
        with pytest.raises(TimeoutError):
            await task.run()
        return anyio.current_time()

    assert run_virtual(main()) == (5, 5)


@pytest.mark.parametrize("ends", ["deadline", "cancel"])
async def test_a_tool_that_ignores_its_cancellation_is_abandoned_and_not_awaited(ends: str) -> None:
    begun, free, abandoned = anyio.Event(), anyio.Event(), list[str]()

    async def work() -> None:
        begun.set()
        with anyio.CancelScope(shield=True):
            await free.wait()

    timeout = 0.01 if ends == "deadline" else 60
    task = ToolTask("stubborn", work, timeout_seconds=timeout, seconds_max=60, on_abandoned=lambda: abandoned.append("it"))

    async def run() -> None:
        with anyio.CancelScope() as scope:
            tasks.start_soon(cancel, scope)
            with pytest.raises(TimeoutError):
                await task.run()
        ended.set()

    async def cancel(scope: anyio.CancelScope) -> None:
        await begun.wait()
        if ends == "cancel":
            scope.cancel()

    ended = anyio.Event()
    with anyio.fail_after(60):
        async with open_tasks() as tasks:
            before = anyio.current_time()
            tasks.start_soon(run)
            await ended.wait()
            free.set()
            assert anyio.current_time() - before < 2 * CANCEL_SECONDS + 0.5
            assert abandoned == ["it"]


def test_a_tool_that_does_not_stop_is_left_within_200_ms() -> None:
    async def main() -> None:
        async def work() -> None:
            with anyio.CancelScope(shield=True):
                await free.wait()

        free = anyio.Event()
        task = ToolTask("stubborn", work, timeout_seconds=3, seconds_max=50)
        with pytest.raises(TimeoutError):
            await task.run()
        assert 3 < anyio.current_time() <= 3.2
        free.set()

    run_virtual(main())


async def test_a_cancelled_tool_closes_what_it_holds_before_its_turn_goes_on() -> None:
    begun, closed = anyio.Event(), list[str]()

    async def work() -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            closed.append("socket")

    task = ToolTask("tidy", work, timeout_seconds=60, seconds_max=60, on_abandoned=pytest.fail)
    with anyio.fail_after(60):
        async with open_tasks() as tasks:
            tasks.start_soon(task.run)
            await begun.wait()
            tasks.cancel_scope.cancel()
        assert closed == ["socket"]


async def test_an_error_of_a_tool_reaches_its_turn_and_nobody_else() -> None:
    async def fail() -> None:
        raise ToolFailed("no such city")

    async def crash() -> None:
        raise ZeroDivisionError

    with anyio.fail_after(60):
        for work, says in ((fail, "no such city"), (crash, "internal error")):
            with pytest.raises(ToolFailed, match=says):
                await ToolTask("odd", work, timeout_seconds=5, seconds_max=5, on_abandoned=pytest.fail).run()


async def test_of_many_reports_four_a_second_are_told_and_always_the_last() -> None:
    told, later = list[float](), anyio.Event()

    def tell(progress: CallProgress) -> None:
        told.append(progress.progress)
        if len(told) == 2:
            later.set()

    reports = ProgressReports(tell)
    for number in range(100):
        reports.report(CallProgress(progress=number))
    assert told == [0]
    with anyio.fail_after(60):
        await later.wait()
    assert told == [0, 99]
    reports.report(CallProgress(progress=100))
    reports.close()
    assert told == [0, 99, 100]
