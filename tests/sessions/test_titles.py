from collections.abc import AsyncGenerator, Iterable
from typing import NoReturn

import anyio
from tests.operations.fixtures import Desk, open_desk

from agentvm.drivers.base import ModelOutput, Prompt
from agentvm.drivers.scripted import ScriptedDriver, ScriptStep, echo
from agentvm.errors import WalletEmpty
from agentvm.events.base import Event, EventScope
from agentvm.events.turn import TurnResponse
from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.ledger import Planned
from agentvm.model.usage import Usage
from agentvm.sessions.background_call import BackgroundCalls
from agentvm.sessions.titles import SYSTEM, Titles

ASKED = "How is the weather in Shanghai today?"


async def exchange(desk: Desk, text: str = ASKED) -> str:
    image = await desk.create_image()
    await desk.ask("message_send", imageId=image["imageId"], content=text)
    await desk.hear("turn_response")
    return str(image["sessionId"])


async def title_of(desk: Desk, session_id: str) -> str | None:
    return (await desk.ask("session_get", sessionId=session_id))["session"]["title"]  # type: ignore[no-any-return]


async def test_a_session_is_named_after_its_first_words_and_everybody_hears_of_it() -> None:
    async with open_desk(titles="first-words") as desk:
        session_id = await exchange(desk)
        heard = await desk.hear("session_title_updated")
        told = next(event for event in heard if event["type"] == "session_title_updated")
        assert (told["data"]["sessionId"], told["data"]["title"]) == (session_id, ASKED)
        assert await title_of(desk, session_id) == ASKED


async def test_a_title_that_a_person_set_is_never_replaced_nor_one_they_took_away() -> None:
    async with open_desk(titles="first-words") as desk:
        image = await desk.create_image()
        await desk.ask("session_set_title", sessionId=image["sessionId"], title="Mine")
        await desk.ask("message_send", imageId=image["imageId"], content=ASKED)
        await desk.hear("turn_response")
        await anyio.wait_all_tasks_blocked()
        assert await title_of(desk, image["sessionId"]) == "Mine"
        await desk.ask("session_set_title", sessionId=image["sessionId"], title=None)
        await desk.ask("message_send", imageId=image["imageId"], content="again")
        await desk.hear("turn_response", times=2)
        await anyio.wait_all_tasks_blocked()
        assert await title_of(desk, image["sessionId"]) is None


async def test_without_the_setting_nobody_gives_a_title() -> None:
    async with open_desk(titles="off") as desk:
        session_id = await exchange(desk)
        await anyio.wait_all_tasks_blocked()
        assert await title_of(desk, session_id) is None


class Namer(ScriptedDriver):
    """Answers, and names what it is shown; notes what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Prompt] = []

    def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        self.asked.append(prompt)
        return super().run(prompt)


async def test_a_driver_that_crashes_over_a_title_takes_nobody_along() -> None:
    crashed = anyio.Event()

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        if prompt.system != SYSTEM:
            return echo(prompt)
        crashed.set()
        raise RuntimeError("a bug")

    async with open_desk(ScriptedDriver(script), titles="model") as desk:
        await exchange(desk)
        with anyio.fail_after(60):
            await crashed.wait()
        await anyio.wait_all_tasks_blocked()
        image = await desk.create_image("c2")
        await desk.ask("message_send", imageId=image["imageId"], content="still there?")
        await desk.hear("turn_response", times=2)


async def test_a_model_names_it_in_one_small_call_with_a_ledger_entry_of_its_own() -> None:
    driver = Namer()
    async with open_desk(driver, titles="model") as desk:
        session_id = await exchange(desk)
        await desk.hear("session_title_updated")
        assert await title_of(desk, session_id)
        assert len(driver.asked) == 2
        assert driver.asked[1].max_tokens <= 50
        assert driver.asked[1].tools == ()
        entries = [entry for _, entry in await desk.peer.workspace.accounts.ledger.list()]
        assert [entry.key for entry in entries if entry.key.startswith("title_")] == [f"title_{session_id}"]
        assert len(entries) == 2


async def test_a_session_that_is_not_stored_gets_no_title_that_costs() -> None:
    driver = Namer()
    async with open_desk(driver, titles="model") as desk:
        await desk.ask("run_start", content=ASKED)
        await desk.hear("session_title_updated")
        assert len(driver.asked) == 1


class Poor:
    """Lets nobody make a call."""

    async def admit(self, planned: Planned, *, force: bool = False) -> NoReturn:
        raise WalletEmpty("The wallet is empty")


async def test_what_a_title_costs_is_counted_as_the_ledger_has_it() -> None:
    async with open_desk(Namer(), titles="model") as desk:
        await exchange(desk)
        await desk.hear("session_title_updated")
        (whole,) = await desk.peer.workspace.accounts.ledger.usage(by=(), since=0)
        (count,) = desk.vm.monitor.metrics.models.values()
        assert (count.calls, count.input_tokens, count.output_tokens) == (2, whole.input_tokens, whole.output_tokens)
        assert (count.cost, count.price, whole.calls) == (whole.cost, whole.price, 2)


async def test_over_the_quota_the_first_words_must_do() -> None:
    driver = Namer()
    async with open_desk(driver) as desk:
        vm = desk.vm
        store = vm.tenancy.store
        calls = BackgroundCalls(store, vm.clock, choose=vm.tenancy.own_keys.choose, meter=Poor())
        titles = Titles(store, vm.clock, calls, by=lambda _: "model")
        session_id = await exchange(desk)
        (turn,) = await store.tenant(desk.peer.tenant_id).container(ContainerId("c1")).log(SessionId(session_id)).list_turns()
        scope = EventScope(
            container_id=turn.container_id, image_id=turn.image_id, session_id=turn.session_id, turn_id=turn.turn_id
        )
        data = TurnResponse(
            turn_id=turn.turn_id,
            message_id=turn.message_id,
            outcome="completed",
            stop_reason="end_turn",
            duration=1,
            usage=Usage(input_tokens=1, output_tokens=1),
            timestamp=1,
        )
        titles.react(Event(data=data, scope=scope, timestamp=1, tenant_id=desk.peer.tenant_id))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(titles.run, vm.runtime.broadcast)
            await desk.hear("session_title_updated")
            tasks.cancel_scope.cancel()
        assert await title_of(desk, session_id) == ASKED
        assert len(driver.asked) == 1
