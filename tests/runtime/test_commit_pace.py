import anyio
import pytest
from tests.runtime.fixtures import open_world

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, echo
from agentvm.events.lifecycle import Interrupted
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


@pytest.mark.parametrize(("sessions", "milliseconds"), [(0, 5.0), (8, 5.0), (9, 5.8), (18, 10.0), (1_000, 10.0)])
def test_a_commit_that_somebody_waits_for_is_put_off_less(sessions: int, milliseconds: float) -> None:
    assert interval(sessions, is_awaited=True) * 1000 == pytest.approx(milliseconds)


async def test_a_commit_is_brought_forward_when_somebody_begins_to_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_pace, "CROWD_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(commit_pace, "CROWD_MAX_SECONDS", NEVER_SECONDS)
    pace, done = CommitPace(), False
    await pace.wait(0)

    async def commit() -> None:
        nonlocal done
        await pace.wait(1_000)
        done = True

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(commit)
            await anyio.wait_all_tasks_blocked()
            assert not done
            pace.expect()
    assert done


async def test_a_message_is_accepted_early_although_many_sessions_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world(ScriptedDriver(lambda prompt: [Pause(anyio.Event())])) as world:
        agent = world.start()
        with monkeypatch.context() as patch, anyio.fail_after(60):
            patch.setattr(commit_pace, "CROWD_SESSIONS_MIN", 0)
            patch.setattr(commit_pace, "CROWD_SECONDS", NEVER_SECONDS)
            patch.setattr(commit_pace, "CROWD_MAX_SECONDS", NEVER_SECONDS)
            for text in ("hi", "again"):
                await world.say(agent, text)


async def test_a_stop_waits_for_no_commit_that_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = anyio.Event()

    def never(prompt: Prompt) -> list[ScriptStep]:
        asked.set()
        return [Pause(anyio.Event())]

    async with open_world(ScriptedDriver(never)) as world:
        agent = world.start()
        await world.say(agent, "hi")
        await asked.wait()
        await agent.ports.journal.settle(await agent.writer.log(), agent.scope)
        with monkeypatch.context() as patch:
            patch.setattr(commit_pace, "COMMIT_INTERVAL_SECONDS", NEVER_SECONDS)
            agent.cancel(await agent.interrupt())
            heard = await world.hear("turn_response")
        assert heard[-1]["data"]["outcome"] == "interrupted"


async def test_an_urgent_event_is_committed_at_once_after_another_commit_was_hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_world(ScriptedDriver(echo)) as world:
        agent = world.start()
        journal, log = agent.ports.journal, await agent.writer.log()
        event = Interrupted(agent_id=agent.agent_id, container_id=agent.container_id)
        with monkeypatch.context() as patch, anyio.fail_after(60):
            patch.setattr(commit_pace, "COMMIT_INTERVAL_SECONDS", NEVER_SECONDS)
            journal.pace.hurry()
            await journal.emit(log, (event,), agent.scope)
            await journal.emit(log, (event,), agent.scope, is_urgent=True)
