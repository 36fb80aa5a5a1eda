import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import anyio
import pytest

from agentvm import log
from agentvm.app import open_agentvm
from agentvm.config import MEMORY, BillingSettings, LlmSettings, ProviderSettings, ServerConfig, SessionSettings, SystemSettings
from agentvm.drivers.models import Models
from agentvm.drivers.registry import open_driver
from agentvm.drivers.scripted import Pause, ScriptedDriver, in_turn, reply
from agentvm.errors import MissingKey
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.model.ledger import Planned
from agentvm.model.money import ModelRate
from agentvm.model.retention import DAY_MS, Retention
from agentvm.model.secret import Secret
from agentvm.model.usage import Usage
from agentvm.observability.log_book import LogBook
from agentvm.observability.redact import Redactor
from agentvm.sessions.retention import Due
from agentvm.storage.engine import open_store
from agentvm.tenants.metering import Metering
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas
from agentvm.wiring import SettingsApplier
from tests.operations.fixtures import Desk
from tests.server.http.fixtures import Clock

BEFORE = ServerConfig(system=SystemSettings(data_dir=MEMORY), llm=LlmSettings(provider="scripted"))
CALL = Planned(tenant_id=TenantId("t"), user_id=None, driver="scripted", model="scripted", most_input=1, most_output=1)
MILLION = Usage(input_tokens=1_000_000, output_tokens=0)


def with_llm(**llm: Any) -> ServerConfig:
    return replace(BEFORE, llm=replace(BEFORE.llm, **llm))


@dataclass(frozen=True, slots=True)
class Running:
    applier: SettingsApplier
    models: Models
    metering: Metering


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    level, concealed = logging.getLogger("agentvm").level, set(log.concealed)
    yield
    logging.getLogger("agentvm").setLevel(level)
    log.concealed.intersection_update(concealed)


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    async with open_store(None) as store, Models(open_one=open_driver, clock=lambda: 1) as models:
        prices = Prices()
        metering = Metering(prices, Quotas(store, lambda: 1), lambda: 1)
        yield Running(SettingsApplier(models, prices, metering, LogBook(lambda: 1, Redactor())), models, metering)


async def test_another_default_model_answers_from_now_on() -> None:
    async with running() as one:
        await one.applier.follow(ServerConfig(system=SystemSettings(data_dir=MEMORY)), BEFORE)
        assert one.models.choose(None).driver.name == "scripted"
        await one.applier.follow(BEFORE, with_llm(model="scripted/other"))
        assert one.models.choose(None).model == "other"


async def test_prices_and_markup_count_for_the_next_call() -> None:
    async with running() as one:
        rate = ModelRate(input=Decimal(2), output=Decimal(2))
        await one.applier.follow(BEFORE, replace(BEFORE, billing=BillingSettings(prices={"scripted": rate}, markup=Decimal(3))))
        charge = one.metering.charge(CALL, MILLION)
        assert charge.cost is not None
        assert charge.price == charge.cost * 3


async def test_the_log_follows_its_level_and_hides_new_keys() -> None:
    async with running() as one:
        key = Secret("sk-a-key-that-came-later")
        await one.applier.follow(
            BEFORE,
            replace(
                with_llm(providers={"openai": ProviderSettings(api_key=key)}),
                system=SystemSettings(data_dir=MEMORY, log_level="error"),
            ),
        )
        assert logging.getLogger("agentvm").level == logging.ERROR
        assert key.reveal() in log.concealed


async def test_what_could_not_be_opened_is_found_out_before_anything_changes() -> None:
    async with running() as one:
        await one.applier.follow(ServerConfig(system=SystemSettings(data_dir=MEMORY)), BEFORE)
        with pytest.raises(MissingKey):
            await one.applier.attempt(with_llm(provider="anthropic"))
        assert one.models.choose(None).driver.name == "scripted"


async def test_what_cannot_be_opened_is_named_as_the_operator_named_it() -> None:
    async with running() as one:
        entries = {name: ProviderSettings(driver="anthropic", api_key=Secret("k")) for name in ("one", "three")}
        wrong = with_llm(providers={**entries, "two": ProviderSettings(driver="anthropic")})
        for step in (one.applier.attempt(wrong), one.applier.follow(BEFORE, wrong)):
            with pytest.raises(MissingKey, match=r"^llm\.providers\.two needs a key: set llm\.providers\.two\.apiKey"):
                await step


async def test_drivers_that_the_program_brought_stay() -> None:
    async with running() as one:
        kept = SettingsApplier(None, Prices(), one.metering, LogBook(lambda: 1, Redactor()))
        wrong = with_llm(provider="anthropic")
        await kept.attempt(wrong)
        await kept.follow(BEFORE, wrong)


@asynccontextmanager
async def serving(retention: Retention, driver: ScriptedDriver | None = None) -> AsyncIterator[tuple[Desk, Clock]]:
    clock = Clock()
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), sessions=SessionSettings(titles="off"), retention=retention)
    async with open_agentvm(config, drivers={"scripted": driver or ScriptedDriver()}, clock=clock) as vm:
        yield Desk(vm, vm.attach()), clock


async def test_a_session_whose_turn_runs_is_left_alone_until_it_has_ended() -> None:
    gate = anyio.Event()
    driver = ScriptedDriver(in_turn(reply("one"), [Pause(gate), *reply("two")]))
    async with serving(Retention(session_days=10, message_days=10), driver) as (desk, clock):
        image = await desk.create_image()
        await desk.ask("message_send", imageId=image["imageId"], content="first")
        await desk.hear("turn_response")
        clock.now += 50 * DAY_MS
        await desk.ask("message_send", imageId=image["imageId"], content="second")
        with anyio.fail_after(60):
            assert await desk.vm.retainer.run() == Due()
        assert len((await desk.ask("session_history", sessionId=image["sessionId"]))["messages"]) == 3
        gate.set()
        await desk.hear("turn_response", times=2)
        (agent,) = desk.vm.runtime.roster
        with anyio.fail_after(60):
            # Its end is told a moment before its agent has put it away.
            await agent.rest()
            await desk.vm.retainer.run()
        history = await desk.ask("session_history", sessionId=image["sessionId"])
        # The server looks by itself, too, so it is not known who has dropped it.
        assert [message["role"] for message in history["messages"]] == ["user", "assistant"]
        assert history["messages"][0]["content"] == "second"


async def test_who_asks_for_events_that_are_too_old_begins_anew_and_hears_what_follows() -> None:
    async with serving(Retention(session_days=10)) as (desk, clock):
        image = await desk.create_image()
        await desk.ask("message_send", imageId=image["imageId"], content="first")
        told = int((await desk.hear("turn_response"))[-1]["cursor"])
        clock.now += 50 * DAY_MS
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(60):
            assert (await desk.vm.retainer.run()).emptied == 1
            back = desk.vm.attach()
            back.listen(ContainerId("c1"), SessionId(image["sessionId"]), 1)
            outbox = back.outbox()
            (resync,) = [json.loads(frame.bare) for frame in await outbox.take()]
            assert (resync["type"], resync["data"]["cursor"]) == ("resync_required", str(told))
            await desk.ask("message_send", imageId=image["imageId"], content="again")
            heard: list[dict[str, object]] = []
            while not heard or heard[-1]["type"] != "turn_response":
                heard += [json.loads(frame.bare) for frame in await outbox.take()]
        cursors = [int(str(event["cursor"])) for event in heard if "cursor" in event]
        assert cursors == list(range(told + 1, told + 1 + len(cursors)))


async def test_a_session_that_goes_takes_its_resting_agent_along_and_everybody_hears_of_it() -> None:
    async with serving(Retention(session_days=10)) as (desk, clock):
        image = await desk.create_image()
        session_id = (await desk.ask("session_create", imageId=image["imageId"]))["session"]["sessionId"]
        agent_id = (await desk.ask("session_resume", sessionId=session_id))["agentId"]
        clock.now += 50 * DAY_MS
        with anyio.fail_after(60):
            assert (await desk.vm.retainer.run()).sessions == 1
        (told,) = [event["data"] for event in desk.hear_nowait() if event["type"] == "session_deleted"]
        assert told["restorableUntil"] == told["deletedAt"] == clock.now
        assert (await desk.ask("agent_get", agentId=agent_id))["exists"] is False
        assert (await desk.ask("session_restore", sessionId=session_id))["errorCode"] == "session_not_found"
