from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import msgspec
import pytest

from agentvm.errors import ModelUnpriced, QuotaExceeded, WalletEmpty
from agentvm.model.account import Quota
from agentvm.model.ids import TenantId
from agentvm.model.ledger import Charge, Credit, Planned
from agentvm.model.money import ModelRate
from agentvm.model.usage import Usage
from agentvm.storage.engine import open_store
from agentvm.tenants.metering import Metering, Terms
from agentvm.tenants.price import Prices
from agentvm.tenants.quota import Quotas

ACME = TenantId("acme")
OWN = {"scripted": ModelRate(input=Decimal(1), output=Decimal(10)), "free": ModelRate(input=Decimal(0), output=Decimal(0))}


def planned(*, driver: str = "scripted", most_input: int = 100, most_output: int = 50, own_key: bool = False) -> Planned:
    return Planned(
        tenant_id=ACME,
        user_id=None,
        driver=driver,
        model="m",
        most_input=most_input,
        most_output=most_output,
        own_key=own_key,
    )


@asynccontextmanager
async def opened(*quotas: Quota, allow_unpriced: bool = False, credits: tuple[int, ...] = ()) -> AsyncIterator[Metering]:
    async with open_store(None) as store:
        for quota in quotas:
            await store.accounts(ACME).quotas.put(quota, 1)
        for amount in credits:
            await store.accounts(ACME).ledger.credit(Credit(reference=str(amount), at=1, amount=amount, actor="test"))
        yield Metering(Prices(OWN), Quotas(store, lambda: 1), lambda: 1, allow_unpriced=allow_unpriced)


async def test_the_price_is_the_cost_and_five_percent() -> None:
    async with opened() as metering:
        held = await metering.admit(planned())
        assert held.settle(Usage(input_tokens=1_000, output_tokens=100)) == Charge(2_000_000, 2_100_000)


async def test_a_call_is_charged_with_the_prices_it_was_admitted_with() -> None:
    async with opened(credits=(1_000_000,)) as metering:
        held = await metering.admit(planned())
        metering._prices.replace({"scripted": ModelRate(input=Decimal(1_000), output=Decimal(1_000))})
        metering.configure(markup=Decimal(2), allow_unpriced=False)
        assert held.settle(Usage(input_tokens=100, output_tokens=50)) == Charge(600_000, 630_000)
        assert metering.charge(planned(), Usage(input_tokens=100, output_tokens=50)).price == 300_000_000


async def test_a_price_is_rounded_half_to_even() -> None:
    async with opened() as metering:
        # Each token of input costs 1,000 nano-USD, so that only a markup of more digits needs rounding.
        fine = Metering(Prices(OWN), metering._quotas, lambda: 1, markup=Decimal("1.0005"))
        assert [fine.charge(planned(), Usage(input_tokens=n, output_tokens=0)).price for n in (1, 3)] == [1_000, 3_002]


async def test_a_model_nobody_knows_the_price_of_is_refused_unless_that_is_allowed() -> None:
    async with opened() as metering:
        with pytest.raises(ModelUnpriced, match=r"\(billing\.prices\.openai/m\) or .* \(billing\.allowUnpriced: on\)"):
            await metering.admit(planned(driver="openai"))
        # What was already called is counted all the same.
        held = await metering.admit(planned(driver="openai"), force=True)
        assert held.settle(Usage(input_tokens=1, output_tokens=1)) == Charge(None, None)
    async with opened(allow_unpriced=True) as metering:
        held = await metering.admit(planned(driver="openai"))
        assert held.settle(Usage(input_tokens=1, output_tokens=1)) == Charge(None, None)


async def test_a_call_with_the_tenants_own_key_costs_nothing_here() -> None:
    async with opened() as metering:
        held = await metering.admit(planned(driver="openai", own_key=True))
        assert held.settle(Usage(input_tokens=1_000, output_tokens=1)) == Charge(0, 0)


async def test_a_call_with_the_tenants_own_key_costs_what_the_operator_asks_for_its_endpoint() -> None:
    rates = {"vllm": ModelRate(input=Decimal(10), output=Decimal(30)), "openai": ModelRate(input=Decimal(1), output=Decimal(1))}
    used = Usage(input_tokens=1_000, output_tokens=0)

    def cost(provider: str, *, hosted: bool) -> int | None:
        call = msgspec.structs.replace(planned(driver="openai", own_key=True), provider=provider, hosted=hosted)
        return Terms(Prices(rates), Decimal(1)).charge(call, used, 1).cost

    assert cost("vllm", hosted=True) == 10_000_000
    # Under the driver's name, too: it is the operator's machine.
    assert cost("other", hosted=True) == 1_000_000
    # At the vendor's own address the tenant pays the vendor, whatever price of theirs the operator has noted.
    assert cost("openai", hosted=False) == 0
    assert cost("vllm", hosted=False) == 10_000_000


async def test_what_a_call_may_use_at_most_is_set_aside() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=200)) as metering:
        held = await metering.admit(planned())
        with pytest.raises(QuotaExceeded):
            await metering.admit(planned())
        held.release()
        (await metering.admit(planned())).settle(Usage(input_tokens=10, output_tokens=10, cache_read_tokens=30))
        (await metering.admit(planned())).release()


async def test_warnings_come_with_the_call_that_causes_them() -> None:
    async with opened(Quota(metric="tokens_per_day", soft=200)) as metering:
        assert [len((await metering.admit(planned())).warnings) for _ in range(3)] == [0, 1, 0]


async def test_an_empty_wallet_refuses_only_what_costs_something() -> None:
    async with opened(credits=(5, -5)) as metering:
        with pytest.raises(WalletEmpty):
            await metering.admit(planned())
        for free in (planned(own_key=True), planned(driver="free")):
            held = await metering.admit(free)
            assert held.settle(Usage(input_tokens=1_000, output_tokens=1)) == Charge(0, 0)


async def test_a_prompt_that_may_be_written_to_a_cache_is_set_aside_at_that_price() -> None:
    rate = ModelRate(input=Decimal(1), output=Decimal(0), cache_write=Decimal("1.25"))
    async with opened(credits=(124_000,)) as metering:
        metering._prices.replace({"scripted": rate})
        metering.configure(markup=Decimal(1), allow_unpriced=False)
        with pytest.raises(WalletEmpty, match=r"at least \$0\.000125"):
            await metering.admit(planned(most_input=100))
        held = await metering.admit(planned(most_input=99))
        # All of it was written: it was set aside.
        assert held.settle(Usage(input_tokens=0, output_tokens=0, cache_write_tokens=99)).price == 123_750


def capped(most_input: int = 100, most_output: int = 4_000, least_output: int = 256) -> Planned:
    return msgspec.structs.replace(planned(most_input=most_input, most_output=most_output), least_output=least_output)


async def test_an_answer_is_capped_to_what_is_left_before_a_call_is_refused() -> None:
    async with opened(Quota(metric="tokens_per_day", hard=2_000)) as metering:
        first = await metering.admit(capped())
        assert first.most_output == 1_900
        first.settle(Usage(input_tokens=100, output_tokens=1_500))
        held = await metering.admit(capped())
        assert held.most_output == 300
        held.settle(Usage(input_tokens=45, output_tokens=0))
        with pytest.raises(QuotaExceeded, match=r"Daily token limit: 355 of 2,000 left until 00:00 UTC; .* at least 356"):
            await metering.admit(capped())
        # Who asks for less than is useful otherwise may have it.
        assert (await metering.admit(capped(most_output=200))).most_output == 200


async def test_an_answer_is_capped_to_what_the_wallet_affords() -> None:
    # A token of input costs 1,050 nano-USD, one of output 10,500.
    async with opened(credits=(100 * 1_050 + 1_000 * 10_500,)) as metering:
        held = await metering.admit(capped())
        assert 990 <= held.most_output <= 1_000
        with pytest.raises(WalletEmpty):
            await metering.admit(capped())
        held.release()
        assert (await metering.admit(capped(most_output=500))).most_output == 500


async def test_what_costs_nothing_is_not_capped_by_a_wallet_that_is_overdrawn() -> None:
    async with opened(credits=(5, -5)) as metering:
        free = msgspec.structs.replace(capped(), driver="free")
        assert (await metering.admit(free)).most_output == 4_000


async def test_the_searches_that_a_provider_may_make_are_held_as_well() -> None:
    async with opened(credits=(2_000_000,)) as metering:
        await metering.admit(planned())
        with pytest.raises(WalletEmpty):
            await metering.admit(
                msgspec.structs.replace(planned(driver="anthropic"), model="claude-sonnet-4-5", most_searches=1)
            )
