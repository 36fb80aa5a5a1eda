import anyio
import pytest
from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import Pause, ScriptedDriver
from agentvm.runtime import commit_pace
from agentvm.runtime.commit_pace import CommitPace, interval

pytestmark = pytest.mark.anyio

NEVER_SECONDS = 10.0**9


@pytest.mark.parametrize(("sessions", "milliseconds"), [(0, 5.0), (8, 5.0), (9, 5.8), (18, 13.0), (1_000, 40.0)])
def test_the_more_sessions_speak_the_longer_a_commit_waits_up_to_a_bound(sessions: int, milliseconds: float) -> None:
    assert interval(sessions) * 1000 == pytest.approx(milliseconds)


async def test_a_hurried_commit_waits_for_nothing_and_the_next_one_waits_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_pace, "COMMIT_INTERVAL_SECONDS", NEVER_SECONDS)
    pace, due = CommitPace(), 0

    async def commit() -> None:
        nonlocal due
        while due < 3:
            await pace.wait(0)
            due += 1

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(commit)
            for number in range(3):
                await anyio.wait_all_tasks_blocked()
                assert due == number
                pace.hurry()


async def test_a_stop_waits_for_no_commit_that_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world(ScriptedDriver(lambda prompt: [Pause(anyio.Event())])) as world:
        agent = world.start()
        await world.say(agent, "hi")
        await anyio.wait_all_tasks_blocked()
        monkeypatch.setattr(commit_pace, "COMMIT_INTERVAL_SECONDS", NEVER_SECONDS)
        agent.cancel(await agent.interrupt())
        heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "interrupted"
        monkeypatch.undo()
