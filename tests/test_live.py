import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal

import pytest

from agentvm import log
from agentvm.config import ProviderConfig, ServerConfig
from agentvm.drivers.models import Models
from agentvm.drivers.registry import open_driver
from agentvm.errors import MissingKey
from agentvm.live import Live
from agentvm.model.ids import TenantId
from agentvm.model.ledger import Planned
from agentvm.model.money import Rate
from agentvm.model.secret import Secret
from agentvm.model.usage import Usage
from agentvm.observability.log_book import LogBook
from agentvm.observability.redact import Redactor
from agentvm.storage.sqlite import open_store
from agentvm.tenants.metering import Metering
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas

pytestmark = pytest.mark.anyio

BEFORE = ServerConfig(data_dir=None, llm_provider="scripted")
CALL = Planned(tenant_id=TenantId("t"), user_id=None, driver="scripted", model="scripted", most_input=1, most_output=1)
MILLION = Usage(input_tokens=1_000_000, output_tokens=0)


@dataclass(frozen=True, slots=True)
class Running:
    live: Live
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
        yield Running(Live(models, prices, metering, LogBook(lambda: 1, Redactor())), models, metering)


async def test_another_default_model_answers_from_now_on() -> None:
    async with running() as one:
        await one.live.follow(ServerConfig(data_dir=None), BEFORE)
        assert one.models.choose(None).driver.name == "scripted"
        await one.live.follow(BEFORE, replace(BEFORE, llm_model="scripted/other"))
        assert one.models.choose(None).model == "other"


async def test_prices_and_markup_count_for_the_next_call() -> None:
    async with running() as one:
        rate = Rate(input=Decimal(2), output=Decimal(2))
        await one.live.follow(BEFORE, replace(BEFORE, prices={"scripted": rate}, markup=Decimal(3)))
        charge = one.metering.charge(CALL, MILLION)
        assert charge.cost is not None
        assert charge.price == charge.cost * 3


async def test_the_log_follows_its_level_and_hides_new_keys() -> None:
    async with running() as one:
        key = Secret("sk-a-key-that-came-later")
        await one.live.follow(BEFORE, replace(BEFORE, log_level="error", provider_keys={"openai": key}))
        assert logging.getLogger("agentvm").level == logging.ERROR
        assert key.reveal() in log.concealed


async def test_what_could_not_be_opened_is_found_out_before_anything_changes() -> None:
    async with running() as one:
        await one.live.follow(ServerConfig(data_dir=None), BEFORE)
        with pytest.raises(MissingKey):
            await one.live.attempt(replace(BEFORE, llm_provider="anthropic"))
        assert one.models.choose(None).driver.name == "scripted"


async def test_what_cannot_be_opened_is_named_as_the_operator_named_it() -> None:
    async with running() as one:
        entries = {name: ProviderConfig(driver="anthropic", api_key=Secret("k")) for name in ("one", "three")}
        wrong = replace(BEFORE, providers={**entries, "two": ProviderConfig(driver="anthropic")})
        for step in (one.live.attempt(wrong), one.live.follow(BEFORE, wrong)):
            with pytest.raises(MissingKey, match=r"^llm\.providers\.two needs a key: set llm\.providers\.two\.apiKey"):
                await step


async def test_drivers_that_the_program_brought_stay() -> None:
    async with running() as one:
        kept = Live(None, Prices(), one.metering, LogBook(lambda: 1, Redactor()))
        wrong = replace(BEFORE, llm_provider="anthropic")
        await kept.attempt(wrong)
        await kept.follow(BEFORE, wrong)
