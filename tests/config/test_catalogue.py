from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.values import keys, plainly, value_of

from agentvm.config import catalogue
from agentvm.config.catalogue import (
    COMPARED_KEY_MAX,
    MASK,
    SETTINGS,
    InvalidValue,
    convert,
    describe_error,
    expects,
    find,
    is_group,
    nearest,
    plain,
    shown,
    split,
    unknown,
)  # fmt: skip
from agentvm.model.secret import Secret


@given(st.data())
def test_what_a_setting_may_be_is_shown_read_and_the_same(data: st.DataObject) -> None:
    key = data.draw(keys())
    setting = find(key)
    assert setting is not None
    value = data.draw(value_of(setting))
    if isinstance(value, Secret):
        assert shown(setting, value) == MASK
        with pytest.raises(TypeError):
            plain(value)
        value_again = convert(setting, value.reveal())
    else:
        value_again = convert(setting, plain(value))
    assert plainly(value_again) == plainly(value)


@given(
    keys(),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
    st.booleans(),
)
def test_whatever_is_given_is_a_value_or_unfit(key: str, value: object, text: bool) -> None:
    setting = find(key)
    assert setting is not None
    with suppress(InvalidValue):
        assert shown(setting, convert(setting, value, text=text)) is not None


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("system.port", "0", 0),
        ("system.auth", "yes", "on"),
        ("system.auth", "FALSE", "off"),
        ("billing.allowUnpriced", "auto", "auto"),
        ("system.allowOrigins", "https://a.example, *", ("https://a.example", "*")),
        ("limits.turnCost", "0.50", Decimal("0.50")),
        ("limits.turnSeconds", "1e2", 100.0),
        ("llm.model", "null", "null"),
        ("llm.model", "5", "5"),
    ],
)
def test_text_becomes_what_the_setting_is(key: str, text: str, value: object) -> None:
    assert convert(SETTINGS[key], text, text=True) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("system.port", True),
        ("system.port", 1.5),
        ("system.port", "8080"),
        ("system.port", 65536),
        ("limits.steps", 0),
        ("limits.turnSeconds", float("nan")),
        ("limits.turnCost", "1e999999999"),
        ("limits.turnCost", Decimal("1e-20")),
        ("limits.turnCost", True),
        ("billing.markup", -1),
        ("system.logLevel", "loud"),
        ("system.allowOrigins", "https://a.example"),
        ("system.allowOrigins", [1]),
        ("llm.model", ""),
        ("llm.model", "a\nb"),
        ("llm.model", "\ud800"),
        ("llm.apiKey", 5),
        ("llm.apiKey", ""),
    ],
)
def test_json_that_is_something_else_is_unfit(key: str, value: object) -> None:
    with pytest.raises(InvalidValue):
        convert(SETTINGS[key], value)


@pytest.mark.parametrize("rate", [{}, {"input": 1}, {"input": 1, "output": -1}, {"input": 1, "output": 1, "other": 1}, 5, None])
def test_a_price_needs_both_sides(rate: Any) -> None:
    setting = find("billing.prices.openai/x")
    assert setting is not None
    with pytest.raises(InvalidValue):
        convert(setting, rate)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("llm.apikey", "llm.apiKey"),
        ("llm.api_key", "llm.apiKey"),
        ("limits.turn_seconds", "limits.turnSeconds"),
        ("sytem.port", "system.port"),
        ("port", "system.port"),
        ("llm.providers.backup.url", "llm.providers.backup.baseUrl"),
        ("defaults.maxtokens", "defaults.maxTokens"),
        ("limit", "limits"),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(typed: str, meant: str) -> None:
    assert nearest(typed) == meant
    assert meant in unknown(typed)


def test_a_long_key_is_compared_by_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = list[int]()

    def compare(word: str, *_: object, **__: object) -> list[str]:
        lengths.append(len(word))
        return []

    monkeypatch.setattr(catalogue, "get_close_matches", compare)
    unknown("llm." + "x" * 100_000)
    assert lengths == [COMPARED_KEY_MAX]


def test_names_of_the_operators_own_are_found_and_odd_ones_are_not() -> None:
    assert find("llm.providers.backup.apiKey") is SETTINGS["llm.providers.*.apiKey"]
    assert find("billing.prices.openai/gpt-5.4-mini") is SETTINGS["billing.prices.*"]
    assert split("billing.prices.openai/gpt-5.4-mini") == ("billing", "prices", "openai/gpt-5.4-mini")
    for odd in ("llm.providers.*.apiKey", "billing.prices.", "llm.providers.A.apiKey", "llm.providers.a b.apiKey", "", "llm"):
        assert find(odd) is None
    for group in ("llm", "llm.providers", "llm.providers.backup", "system.oidc", "billing.prices"):
        assert is_group(group)
    for none in ("llm.model", "llm.providers.*", "nothing", "", "llm.providers.A"):
        assert not is_group(none)
    assert nearest("zzzzzzzz") is None
    assert "small letters" in unknown("llm.providers.A.model")


def test_what_an_address_carries_is_not_shown_nor_what_is_secret() -> None:
    url = SETTINGS["llm.baseUrl"]
    assert shown(url, "https://me:sk-1@host:1/v1?key=sk-2#sk-3") == "https://***@host:1/v1?***"
    assert shown(url, "http://[broken") == MASK
    assert shown(url, None) is None
    error = InvalidValue("it must be longer")
    for hidden in (url, SETTINGS["llm.apiKey"]):
        assert describe_error(hidden, "sk-1", error) == "it must be longer"
    assert describe_error(SETTINGS["llm.model"], "m", error) == "it is 'm'; it must be longer"


def test_what_is_shown_in_the_place_of_a_secret_is_no_value() -> None:
    url = "https://me:sk-1@host:1/v1?key=sk-2"
    for key, value in (
        ("llm.apiKey", MASK),
        ("llm.providers.x.apiKey", f" {MASK}"),
        ("llm.baseUrl", shown(SETTINGS["llm.baseUrl"], url)),
    ):
        setting = find(key)
        assert setting is not None
        for text in (False, True):
            with pytest.raises(InvalidValue, match="instead of a secret"):
                convert(setting, value, text=text)


def test_bounds_are_told() -> None:
    assert SETTINGS["system.port"].bounds == (0, 65535)
    assert expects(SETTINGS["system.port"]) == "a whole number from 0 to 65535"
    assert expects(SETTINGS["system.logLevel"]) == "one of: debug, info, warning, error"
    for setting in SETTINGS.values():
        assert expects(setting)
