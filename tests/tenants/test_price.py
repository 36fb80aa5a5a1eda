from decimal import Decimal

import pytest

from agentvm.model.money import ModelRate
from agentvm.model.usage import NO_USAGE, Usage
from agentvm.tenants.price import Prices

NOW = 1_794_725_960_366
SPENT = Usage(input_tokens=1_000, output_tokens=500, cache_read_tokens=2_000, cache_write_tokens=100, thinking_tokens=40)


def test_a_known_model_costs_what_its_provider_charges_for_each_kind_of_token() -> None:
    # $3 in, $15 out, $0.30 read from and $3.75 written to the cache, per million; thinking is part of the output.
    assert Prices().cost("anthropic", "claude-sonnet-4-20250514", SPENT, NOW) == 3_000_000 + 7_500_000 + 600_000 + 375_000
    # $2.50 in, $10 out, $1.25 read; there is no price for writing.
    plain = Usage(input_tokens=1_000, output_tokens=500, cache_read_tokens=2_000)
    assert Prices().cost("openai", "gpt-4o", plain, NOW) == 2_500_000 + 5_000_000 + 2_500_000


def test_nothing_used_costs_nothing() -> None:
    assert Prices().cost("anthropic", "claude-sonnet-4-20250514", NO_USAGE, NOW) == 0


@pytest.mark.parametrize("model", ["nobody-knows-this-model", "", "x" * 5_000])
@pytest.mark.parametrize("driver", ["openai", "anthropic", "nobody"])
def test_a_model_nobody_knows_has_no_price(driver: str, model: str) -> None:
    assert Prices().cost(driver, model, SPENT, NOW) is None


@pytest.mark.parametrize("driver", ["local", "scripted"])
def test_models_that_run_here_are_free(driver: str) -> None:
    assert Prices().cost(driver, "any", SPENT, NOW) == 0


def test_the_operators_own_price_goes_before_the_table() -> None:
    own = {
        "openai/gpt-4o": ModelRate(input=Decimal(1), output=Decimal(2)),
        "local": ModelRate(input=Decimal("0.5"), output=Decimal(1)),
    }
    prices = Prices(own)
    # What was read from and written to the cache is input, where nothing else is said.
    assert prices.cost("openai", "gpt-4o", SPENT, NOW) == (3_100 * 1 + 500 * 2) * 1_000
    assert prices.cost("local", "whatever", SPENT, NOW) == (3_100 * 500 + 500 * 1_000)
    whole = ModelRate(input=Decimal(1), output=Decimal(2), cache_read=Decimal("0.1"), cache_write=Decimal("1.25"))
    assert whole.cost(SPENT) == 1_000_000 + 1_000_000 + 200_000 + 125_000


def test_a_named_providers_price_goes_before_its_drivers() -> None:
    def flat(dollars: int) -> ModelRate:
        return ModelRate(input=Decimal(dollars), output=Decimal(0))

    prices = Prices({"corp/gpt-4o": flat(1), "corp": flat(2), "openai/gpt-4o": flat(3), "local": flat(4)})
    one = Usage(input_tokens=1_000, output_tokens=0)
    assert prices.cost("openai", "gpt-4o", one, NOW, "corp") == 1_000_000
    assert prices.cost("openai", "gpt-5", one, NOW, "corp") == 2_000_000
    assert prices.cost("openai", "gpt-4o", one, NOW, "other") == 3_000_000
    assert prices.cost("openai", "gpt-4o", one, NOW) == 3_000_000
    # A provider without a price of its own costs what its driver does.
    assert Prices().cost("openai", "gpt-4o", one, NOW, "corp") == Prices().cost("openai", "gpt-4o", one, NOW)
    assert Prices().cost("local", "any", one, NOW, "box") == 0


def test_a_price_is_rounded_once_and_to_the_even_side() -> None:
    rate = ModelRate(input=Decimal("0.0005"), output=Decimal(0))
    assert [rate.cost(Usage(input_tokens=count, output_tokens=0)) for count in (1, 2, 3, 5)] == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("driver", "model", "known"),
    [
        ("anthropic", "claude-opus-4-5", True),
        ("anthropic", "claude-opus-4-5-20251101", True),
        ("anthropic", "claude-sonnet-4-6-latest", True),
        ("anthropic", "claude-3-opus-20240229", True),
        ("anthropic", "claude-sonnet-5@20260915", True),
        ("openai", "GPT-4o", True),
        ("openai", "gpt-4o-audio-preview-2025-06-03", True),
        ("anthropic", "claude-opus-4-5-fast", False),
        ("anthropic", "claude-opus-4-5-20251101-priority", False),
        ("anthropic", "claude-sonnet-4-6" + "-2024-07-18" * 300, False),
        ("openai", "gpt-4o-audio-preview-pro", False),
    ],
)
def test_a_variant_that_only_begins_like_a_known_model_has_no_price(driver: str, model: str, *, known: bool) -> None:
    assert (Prices().cost(driver, model, SPENT, NOW) is not None) == known


def test_a_search_of_the_provider_has_its_own_price() -> None:
    used = Usage(input_tokens=1_000_000, output_tokens=0, web_searches=3)
    plain = Prices({"anthropic/m": ModelRate(input=Decimal(1), output=Decimal(1))})
    assert plain.cost("anthropic", "m", used, 0) == 1_030_000_000
    own = Prices({"anthropic/m": ModelRate(input=Decimal(1), output=Decimal(1), web_search=Decimal(20))})
    assert own.cost("anthropic", "m", used, 0) == 1_060_000_000
    # A tenant with its own key pays the provider itself.
    assert plain.own_cost(("anthropic",), "m", used) == 1_000_000_000
    listed = Prices().cost(
        "anthropic", "claude-sonnet-4-5", Usage(input_tokens=0, output_tokens=0, web_searches=2), 1_780_000_000_000
    )
    assert listed == 20_000_000
