"""The ledger has the time of every job in a sandbox once, over waits, stops, crashes and refused commits."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.operations.fixtures import Desk
from tests.runtime.fixtures import open_world
from tests.runtime.fixtures import tool as plain_tool
from tests.runtime.program_bench import SPEC, answer, open_waits

from agentvm import tool
from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SessionSettings, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors import StoreFailed
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId, TurnId
from agentvm.model.ledger import TIER_DRIVER, LedgerEntry
from agentvm.model.message import ToolResultMessage
from agentvm.model.tier import Job, JobResult, Need, Offer, Placed
from agentvm.model.usage import NO_USAGE
from agentvm.model.wait import Question
from agentvm.runtime.tools import Tool
from agentvm.storage.base import Committed, SessionWrite
from agentvm.tenants.sandbox_hold import SANDBOX
from agentvm.tiers.base import HostCalls
from agentvm.tiers.scheduler import Scheduler
from agentvm.tools.base import CallContext, CallResult, InputRequired, OtherTools

pytestmark = pytest.mark.anyio


@tool(effect="destructive", world="closed")
async def delete(name: str) -> str:
    """Delete something for good."""
    return name


@dataclass
class Jobs:
    """In place of sandboxes: a job calls the functions that its code names, line by line, and reports its time."""

    wall_ms: int = 700
    reported: list[int] = field(default_factory=list)
    hangs: bool = False
    begun: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, job: Job, calls: HostCalls | None) -> JobResult:
        self.begun.set()
        for line in (job.code or "").splitlines():
            if line in job.functions and calls is not None:
                await calls(line, {"name": "x"})
        if self.hangs:
            await anyio.sleep_forever()
        self.reported.append(self.wall_ms + len(self.reported))
        return JobResult(exit_code=0, duration_ms=self.reported[-1])


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    fake = Jobs()

    async def run(
        self: object, need: Need, job: Job, *, began: Callable[[Placed], None], calls: HostCalls | None = None, **more: object
    ) -> Any:
        began(placed := Placed(tier="process"))
        return placed, await fake.run(job, calls)

    async def place(self: object, need: Need, *more: object, **about: object) -> Placed:
        return Placed(tier="process")

    async def offers(self: object) -> tuple[Offer, ...]:
        return (Offer(tier="process", engines=frozenset({"python"}), calls=True),)

    for name, double in (("run", run), ("place", place), ("offers", offers)):
        monkeypatch.setattr(Scheduler, name, double)
    return fake


@asynccontextmanager
async def server(path: Path, *calls: tuple[str, str]) -> AsyncIterator[Desk]:
    """A server on a data directory; the model asks for these calls, given by id and code, once."""
    asked: list[tuple[str, str, dict[str, object]]] = [(call_id, "run_python", {"code": code}) for call_id, code in calls]
    driver = ScriptedDriver(in_turn(tool_calls(*asked), reply("done")) if asked else in_turn(*[reply("done")] * 9))
    config = ServerConfig(system=SystemSettings(data_dir=str(path), shutdown_seconds=0), sessions=SessionSettings(titles="off"))
    async with open_agentvm(config, drivers={"scripted": driver}, tools=[delete]) as vm:
        desk = Desk(vm, vm.attach())
        await desk.limit(SANDBOX, 1_000)
        for image in await vm.store.tenant(DEFAULT_TENANT).container(ContainerId("c1")).list_images():
            vm.runtime.broadcaster.subscribe(desk.peer.channel, image.container_id, image.session_id)
        yield desk


async def begin(desk: Desk) -> str:
    image = await desk.create_image(tools=["run_python", "delete"])
    await desk.ask("message_send", imageId=image["imageId"], content="go")
    return str(image["sessionId"])


async def entries(desk: Desk) -> list[LedgerEntry]:
    listed = await desk.peer.workspace.accounts.ledger.list()
    return [entry for _, entry in listed if entry.driver == TIER_DRIVER]


async def used_ms(desk: Desk) -> int:
    """The time that the quota has counted."""
    book = await desk.vm.tenancy.quotas.book(DEFAULT_TENANT)
    (counter,) = book.applying(None, (SANDBOX,))
    assert counter.held == 0
    return counter.used * 1000 + counter.rest_ms


async def approve(desk: Desk) -> None:
    (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
    reply = await desk.ask("tool_answer", waitId=wait["waitId"], fingerprint=wait["fingerprint"], decision="approve")
    assert "errorCode" not in reply


@pytest.mark.parametrize("restarts", [0, 1, 2])
async def test_each_run_of_a_program_that_waits_is_in_the_ledger_also_those_of_another_process(
    tmp_path: Path, jobs: Jobs, restarts: int
) -> None:
    async with server(tmp_path, ("p1", "tools\ndelete\ndelete\ndelete")) as desk:
        await begin(desk)
        await desk.hear("turn_parked")
        if not restarts:
            for number in (1, 2):
                await approve(desk)
                await desk.hear("turn_parked", times=number + 1)
    for times in {0: (), 1: (2,), 2: (1, 1)}[restarts]:
        async with server(tmp_path) as desk:
            for number in range(times):
                await approve(desk)
                await desk.hear("turn_parked", times=number + 1)
    async with server(tmp_path) as desk:
        before = await used_ms(desk)
        assert before == sum(entry.wall_ms for entry in await entries(desk))
        await approve(desk)
        await desk.hear("turn_response")
        charged = await entries(desk)
        # Three runs that were killed when they had to wait, and the one that came to its end.
        assert len({entry.key for entry in charged}) == 4
        assert jobs.reported == [charged[-1].wall_ms]
        assert await used_ms(desk) == sum(entry.wall_ms for entry in charged) == before + jobs.reported[0]
        assert {entry.turn_id for entry in charged} == {charged[0].key.split("/")[0]}


async def test_the_ledger_has_as_much_as_the_jobs_of_a_turn_report_and_so_does_the_next_process(
    tmp_path: Path, jobs: Jobs
) -> None:
    async with server(tmp_path, *((f"p{number}", "pass") for number in range(5))) as desk:
        await begin(desk)
        await desk.hear("turn_response")
        assert sorted(entry.wall_ms for entry in await entries(desk)) == jobs.reported
        assert await used_ms(desk) == sum(jobs.reported) == 3_510
    async with server(tmp_path) as desk:
        assert await used_ms(desk) == 3_510


async def test_a_job_of_a_turn_that_is_stopped_is_in_the_ledger_and_nothing_stays_held(tmp_path: Path, jobs: Jobs) -> None:
    jobs.hangs = True
    async with server(tmp_path, ("p1", "pass")) as desk:
        await begin(desk)
        with anyio.fail_after(60):
            await jobs.begun.wait()
        (image,) = (await desk.ask("image_list"))["records"]
        await desk.ask("agent_interrupt", imageId=image["imageId"])
        await desk.hear("turn_response")
        (entry,) = await entries(desk)
        assert await used_ms(desk) == entry.wall_ms
    async with server(tmp_path) as desk:
        assert await used_ms(desk) == entry.wall_ms


# --- one commit


def charging(name: str, *, needs_person: bool = False) -> Tool:
    """A tool whose job takes a second."""

    async def run(arguments: dict[str, object], context: CallContext) -> CallResult | InputRequired:
        assert context.charge is not None
        context.charge(second(context.key))
        if needs_person and context.resumption is None:
            return InputRequired(questions={"q": Question(mode="form", message="Sure?")})
        return CallResult(type="text", value="done")

    async def never(arguments: dict[str, object]) -> object:
        raise AssertionError

    return Tool(spec=plain_tool(name, never).spec, run=never, call=run, repeatable=True)


def second(key: str) -> LedgerEntry:
    return LedgerEntry(
        key=key, at=1, tenant_id=DEFAULT_TENANT, container_id=ContainerId(""), image_id=ImageId(""), session_id=SessionId(""),
        turn_id=TurnId(""), driver=TIER_DRIVER, model="process", usage=NO_USAGE, wall_ms=1_000,
    )  # fmt: skip


class Watched:
    """A store that looks at every commit which has a charge, and refuses the first so many of them."""

    def __init__(self, store: Any, refuses: int) -> None:
        self._store, self._refuses = store, refuses
        self.seen: list[tuple[int, int]] = []
        """Charges and results of the commits with charges that were stored."""
        self.stored: list[tuple[int, int]] = []
        """Charges and results in the store after each commit that was refused."""

    async def commit(self, writes: Sequence[SessionWrite], **more: Any) -> Committed:
        charges = sum(len([entry for entry in write.ledger if entry.driver == TIER_DRIVER]) for write in writes)
        if charges and self._refuses:
            self._refuses -= 1
            self.stored.append(await self._count(writes[0]))
            raise StoreFailed("the disk is full")
        committed: Committed = await self._store.commit(writes, **more)
        if charges:
            messages = [message for write in writes for message in write.messages]
            self.seen.append((charges, sum(isinstance(message, ToolResultMessage) for message in messages)))
        return committed

    async def _count(self, write: SessionWrite) -> tuple[int, int]:
        messages = await self._store.tenant(DEFAULT_TENANT).container(write.container_id).list_messages(write.session_id)
        ledger = await self._store.accounts(DEFAULT_TENANT).ledger.list()
        return sum(entry.wall_ms > 0 for _, entry in ledger), sum(isinstance(one, ToolResultMessage) for one in messages)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.parametrize("refuses", [0, 1])
async def test_a_charge_and_its_result_share_a_commit_and_neither_is_there_if_it_is_refused(refuses: int) -> None:
    stores: list[Watched] = []

    def watch(store: Any) -> Watched:
        stores.append(Watched(store, refuses))
        return stores[0]

    driver = ScriptedDriver(in_turn(tool_calls(("c1", "job", {})), reply("done")))
    async with open_world(driver, tools=[charging("job")], watch=watch) as world:
        await world.say(world.start(), "go")
        await world.start().rest()
        with anyio.fail_after(60):
            while not (turns := await world.turns()) or turns[0].outcome is None:
                await world.start().writer.store_unstored()
        results = [message for message in await world.messages() if isinstance(message, ToolResultMessage)]
        ledger = [entry for _, entry in await world.store.accounts(DEFAULT_TENANT).ledger.list() if entry.wall_ms]
    assert [entry.wall_ms for entry in ledger] == [1_000]
    # The result that could not be stored, and the time of its job, are stored with the end of the turn.
    assert (stores[0].seen, len(results)) == ([(1, 1)], 1)
    assert stores[0].stored == [(0, 0)] * refuses


async def test_the_job_of_a_call_that_a_program_makes_is_in_the_ledger() -> None:
    async def script(others: OtherTools) -> object:
        await others.call("job", {})
        return await others.call("job", {})

    async def program(arguments: dict[str, object], context: CallContext) -> CallResult:
        assert context.others is not None
        return CallResult(type="json", value=await script(context.others))

    job = charging("job")
    outer = Tool(spec=SPEC, run=job.run, call=program, repeatable=True, beside=lambda specs: "programs")
    driver = ScriptedDriver(in_turn(tool_calls(("p1", "program", {})), reply("done")))
    async with open_world(driver, tools=[outer, job]) as world:
        turn_id = await world.say(world.start(), "go")
        await world.hear("turn_response")
        ledger = [entry for _, entry in await world.store.accounts(DEFAULT_TENANT).ledger.list() if entry.wall_ms]
        assert [entry.key for entry in ledger] == [f"{turn_id}/p1.1", f"{turn_id}/p1.2"]


async def test_each_job_of_a_call_that_needs_a_person_is_in_the_ledger() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "job", {})), reply("done")))
    async with open_world(driver, tools=[charging("job", needs_person=True)]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        await answer(world, (await open_waits(world))[0], "answer", result={"q": {"action": "accept", "content": {}}})
        await world.hear("turn_response")
        ledger = [entry for _, entry in await world.store.accounts(DEFAULT_TENANT).ledger.list() if entry.wall_ms]
        assert [entry.wall_ms for entry in ledger] == [1_000, 1_000]
