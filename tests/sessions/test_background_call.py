from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from tests.conformance.records import image, turn
from tests.conformance.store import ACME, settle

from agentvm.drivers.account_health import AccountHealth
from agentvm.drivers.base import MessageStarted, MessageStopped, Prompt, TextChunk, TextStarted, TextStopped, UserEntry
from agentvm.drivers.models import Chosen
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, reply
from agentvm.errors import (
    ProviderBadRequest,
    ProviderError,
    ProviderProtocolError,
    ProviderUnreachable,
    StoreFailed,
    WalletEmpty,
)
from agentvm.events.lifecycle import QuotaWarning
from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId, TurnId, UserId
from agentvm.model.ledger import Charge, LedgerEntry, Planned
from agentvm.model.usage import Usage
from agentvm.sessions.background_call import BackgroundCalls, CallOwner, SessionWork
from agentvm.sharing.fair_slots import FairSlots
from agentvm.storage.engine import open_store
from agentvm.storage.sql.accounts.ledger import LedgerStore
from agentvm.storage.sql.store import Store

WORK = SessionWork(
    tenant_id=TenantId("acme"),
    container_id=ContainerId("home"),
    image_id=ImageId("img"),
    session_id=SessionId("sess"),
)
OWNER = CallOwner(key="summary_1", work=WORK, user_id=UserId("ann"))


class Purse:
    """Charges one for each token, and remembers what is set aside."""

    warnings: tuple[QuotaWarning, ...] = ()
    most_output: int | None = None

    def __init__(self) -> None:
        self.planned: list[Planned] = []
        self.open = 0
        self.refuses: set[str] = set()

    async def admit(self, planned: Planned, *, force: bool = False) -> "Purse":
        if planned.provider in self.refuses:
            raise WalletEmpty("no more")
        self.planned.append(planned)
        self.open += 1
        return self

    def settle(self, usage: Usage) -> Charge:
        self.open -= 1
        return Charge(cost=usage.total, price=usage.total)

    def release(self) -> None:
        self.open -= 1


def candidate(name: str, *steps: ScriptStep) -> Chosen:
    return Chosen(ScriptedDriver(lambda _: steps), "m", AccountHealth(name, lambda: 1).of(None), provider=name)


def asked(one: Chosen) -> int:
    assert isinstance(one.driver, ScriptedDriver)
    return len(one.driver.prompts)


def write(one: Chosen) -> Prompt:
    return Prompt(model=one.model, conversation=(UserEntry(content="hi"),), max_tokens=10)


@asynccontextmanager
async def opened(purse: Purse) -> AsyncIterator[tuple[BackgroundCalls, Store]]:
    async with open_store(None) as store:
        await settle(store, image())
        yield BackgroundCalls(store, lambda: 5, choose=lambda *_: None, meter=purse), store  # type: ignore[arg-type]  # Not asked.


async def owed(store: Store) -> list[LedgerEntry]:
    return [entry for _, entry in await store.accounts(ACME).ledger.list()]


async def test_what_was_said_is_billed_once_under_its_own_key() -> None:
    purse = Purse()
    async with opened(purse) as (calls, store):
        one = candidate("a", *reply("So ", "it is.", usage=Usage(input_tokens=3, output_tokens=4)))
        heard = await calls.ask(OWNER, [one], write)
        assert heard == (one, "So it is.")
        (entry,) = await owed(store)
        assert (entry.key, entry.turn_id, entry.user_id, entry.price, entry.usage.total) == (
            "summary_1",
            "summary_1",
            "ann",
            7,
            7,
        )
        assert purse.open == 0
        assert purse.planned[0].most_output == 10


@pytest.mark.parametrize("end", [(), (TextStopped(), MessageStopped("refusal"))], ids=["breaks off", "refuses"])
async def test_half_an_answer_and_a_refusal_are_billed_and_are_no_answer(end: tuple[ScriptStep, ...]) -> None:
    purse = Purse()
    async with opened(purse) as (calls, store):
        one = candidate("a", MessageStarted("p", "m"), TextStarted(), TextChunk("I cannot"), *end)
        with pytest.raises(ProviderProtocolError):
            await calls.ask(OWNER, [one], write)
        assert [entry.key for entry in await owed(store)] == ["summary_1"]
        assert purse.open == 0


async def test_who_stands_in_is_asked_while_nothing_was_said() -> None:
    purse = Purse()
    async with opened(purse) as (calls, store):
        out, well = candidate("a", ProviderUnreachable("out")), candidate("b", *reply("yes"))
        heard = await calls.ask(OWNER, [out, well], write)
        assert heard is not None
        assert heard[0] is well
        assert [entry.key for entry in await owed(store)] == ["summary_1"]
        # That it is out is known now: the next call does not find out again.
        await calls.ask(OWNER, [out, well], write)
        assert asked(out) == 1
        assert purse.open == 0


@pytest.mark.parametrize("error", [ProviderUnreachable("out"), ProviderBadRequest("what?")])
async def test_what_fails_for_all_fails_and_costs_nothing(error: ProviderError) -> None:
    purse = Purse()
    async with opened(purse) as (calls, store):
        with pytest.raises(type(error)):
            await calls.ask(OWNER, [candidate("a", error), candidate("b", ProviderUnreachable("out"))], write)
        assert await owed(store) == []
        assert purse.open == 0


@pytest.mark.parametrize(
    ("steps", "price"), [((ProviderUnreachable("out"),), None), (reply("yes", usage=Usage(input_tokens=7, output_tokens=1)), 8)]
)
async def test_the_end_of_a_call_that_the_disk_refuses_is_entered_before_the_next_call(
    steps: tuple[ScriptStep, ...], price: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(Purse()) as (calls, store):
        add = LedgerStore.add

        async def refuse(*_: object, **__: object) -> int:
            raise StoreFailed("full")

        monkeypatch.setattr(LedgerStore, "add", refuse)
        with pytest.raises(StoreFailed):
            await calls.ask(OWNER, [candidate("a", *steps)], write)
        assert [call.key for call in await store.list_sent_calls()] == ["summary_1.1"]
        monkeypatch.setattr(LedgerStore, "add", add)
        await calls.ask(
            replace(OWNER, key="summary_2"), [candidate("b", *reply("no", usage=Usage(input_tokens=1, output_tokens=1)))], write
        )
        prices = {entry.key: entry.price for entry in await owed(store)}
        assert prices == {"summary_2": 2} | ({} if price is None else {"summary_1": price})
        assert await store.list_sent_calls() == ()


async def test_a_request_that_is_refused_is_not_put_to_others() -> None:
    async with opened(Purse()) as (calls, _):
        other = candidate("b", *reply("yes"))
        with pytest.raises(ProviderBadRequest):
            await calls.ask(OWNER, [candidate("a", ProviderBadRequest("what?")), other], write)
        assert asked(other) == 0


async def test_what_was_cut_off_is_paid_for_by_an_estimate() -> None:
    purse = Purse()
    begun: list[ScriptStep] = [
        MessageStarted("", "m"),
        TextStarted(),
        TextChunk("three words here"),
        ProviderUnreachable("gone"),
    ]
    async with opened(purse) as (calls, store):
        other = candidate("b", *reply("yes"))
        with pytest.raises(ProviderUnreachable):
            await calls.ask(OWNER, [candidate("a", *begun), other], write)
        (entry,) = await owed(store)
        assert entry.usage.estimated
        assert asked(other) == 0


async def test_who_goes_away_pays_for_what_was_said() -> None:
    purse = Purse()
    begun: list[ScriptStep] = [MessageStarted("", "m"), TextStarted(), TextChunk("word"), Pause(anyio.Event())]
    async with opened(purse) as (calls, store):
        one = candidate("a", *begun)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calls.ask, OWNER, [one], write)
            with anyio.fail_after(60):
                while not asked(one):
                    await anyio.lowlevel.checkpoint()
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        (entry,) = await owed(store)
        assert (entry.key, entry.usage.output_tokens) == ("summary_1", 2)
        assert purse.open == 0


async def test_a_call_that_is_stopped_before_its_request_leaves_costs_nothing() -> None:
    purse = Purse()
    async with opened(purse) as (calls, store):
        one = candidate("a", *reply("never"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calls.ask, OWNER, [one], write)
            with anyio.fail_after(60):
                # Admitted: what comes next is the commit that it is made.
                while not purse.planned:
                    await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        assert (asked(one), await owed(store), purse.open) == (0, [], 0)
        assert await store.accounts(ACME).asked.of_turn(TurnId("summary_1")) == ()


async def test_over_the_quota_nobody_is_asked_and_who_may_not_be_paid_does_not_stand_in() -> None:
    purse = Purse()
    async with opened(purse) as (calls, _):
        purse.refuses = {"a"}
        with pytest.raises(WalletEmpty):
            await calls.ask(OWNER, [candidate("a", *reply("x")), candidate("b", *reply("x"))], write)
        purse.refuses = {"b"}
        dear = candidate("b", *reply("x"))
        heard = await calls.ask(OWNER, [candidate("a", ProviderUnreachable("out")), dear, candidate("c", *reply("c"))], write)
        assert heard is not None
        assert heard[1] == "c"
        assert asked(dear) == 0


async def test_who_can_be_asked_nothing_is_passed_over() -> None:
    async with opened(Purse()) as (calls, _):
        one, two = candidate("a", *reply("a")), candidate("b", *reply("b"))
        heard = await calls.ask(OWNER, [one, two], lambda chosen: None if chosen is one else write(chosen))
        assert heard == (two, "b")
        assert await calls.ask(OWNER, [one], lambda _: None) is None


async def test_who_sent_a_message_is_known_by_its_turn() -> None:
    async with opened(Purse()) as (calls, store):
        home = store.tenant(ACME).container(ContainerId("home"))
        await home.log(image().session_id).record(turns=[turn("t1")], now=1)
        for turn_id in ("t1", "gone"):
            work = replace(WORK, tenant_id=ACME, turn_id=TurnId(turn_id))
            assert (await calls.owner(work, "title_1")).user_id is None
            assert (await calls.owner(replace(work, user_id=UserId("ann")), "title_1")).user_id == "ann"


async def test_a_call_beside_the_turns_waits_for_a_slot_like_any_other() -> None:
    purse = Purse()
    slots = FairSlots(1)
    async with opened(purse) as (calls, _):
        one = candidate("a", *reply("hi"))._replace(slots=slots)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                async with slots.hold("another tenant"):
                    tasks.start_soon(calls.ask, OWNER, [one], write)
                    await anyio.wait_all_tasks_blocked()
                    assert asked(one) == 0
        assert (asked(one), slots.free, purse.open) == (1, 1, 0)
