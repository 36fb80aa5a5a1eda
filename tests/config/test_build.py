from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import assume, given
from tests.config.values import flat_values, plainly

from agentvm.config import MEMORY, BillingSettings, LlmSettings, PlanSettings, ProviderSettings, ServerConfig, SystemSettings
from agentvm.config.build import assemble, base_of, build
from agentvm.config.catalogue import DEFAULTS, Value
from agentvm.config.layers import Layer, SettingValue, Values, merge
from agentvm.errors import ConfigInvalid
from agentvm.model.account import Allowance, Quota
from agentvm.model.limits import Defaults, Limits
from agentvm.model.money import ModelRate
from agentvm.model.secret import Secret
from agentvm.model.setting import flatten
from agentvm.model.settings import OidcConfig, Settings

FULL = ServerConfig(
    system=SystemSettings(
        host="::1",
        port=0,
        data_dir=MEMORY,
        allow_origins=("*",),
        shutdown_seconds=1.5,
        log_level="debug",
        auth="on",
        admin_key=Secret("k4"),
        server_key=Secret("k5"),
        oidc=OidcConfig(issuer="https://i", audience="a", jwks_url="https://j", tenant_claim="t"),
    ),
    llm=LlmSettings(
        provider="backup",
        model="m",
        api_key=Secret("k1"),
        base_url="http://h",
        providers={
            "backup": ProviderSettings(
                driver="openai",
                model="m2",
                api_key=Secret("k3"),
                base_url="http://b",
                timeout=1_500,
                max_concurrent=7,
                own_keys="on",
            ),
            "anthropic": ProviderSettings(api_key=Secret("k2")),
            "openai": ProviderSettings(own_keys="off"),
        },
        fallback=("local",),
        model_dir="models",
    ),
    billing=BillingSettings(
        markup=Decimal("1.2"), prices={"openai/x.y": ModelRate(input=Decimal(1), output=Decimal(2))}, allow_unpriced="off"
    ),
    defaults=Defaults(max_tokens=9, timeout=500),
    limits=Limits(inbox=1, steps=2, turn_cost=Decimal("1.5"), turn_seconds=3.5, agents=7),
    plans={"small": PlanSettings(limits=Allowance(quotas=(Quota(metric="containers", hard=5),)))},
)


def values_of(values: dict[str, Value]) -> Values:
    return merge([Layer("file", {key: SettingValue(value) for key, value in values.items()})])


def test_nothing_gives_the_defaults() -> None:
    assert build(values_of({})) == ServerConfig()
    assert assemble(values_of({})) == Settings()


def test_a_config_that_is_taken_apart_is_the_same_when_it_is_put_together() -> None:
    assert build(values_of(dict(flatten(FULL)))) == FULL
    assert {key: value for key, value in flatten(ServerConfig()) if key not in DEFAULTS} == {}
    assert dict(flatten(FULL))["system.dataDir"] == MEMORY


@given(flat_values())
def test_values_that_go_together_come_back(values: dict[str, Value]) -> None:
    try:
        config = build(values_of(values))
    except ConfigInvalid:
        assume(False)
    again = dict(flatten(config))
    for key, value in values.items():
        assert plainly(again[key]) == plainly(value), key


def test_a_driver_of_which_only_the_key_is_said_is_not_opened_for_it() -> None:
    config = build(values_of({"llm.providers.anthropic.apiKey": Secret("k")}))
    assert (config.driver_settings("anthropic").api_key, config.providers) == (Secret("k"), {})
    assert list(config.driver_settings_by_provider) == ["local"]
    named = build(values_of({"llm.providers.anthropic.apiKey": Secret("k"), "llm.providers.anthropic.model": "m"}))
    assert list(named.driver_settings_by_provider) == ["local", "anthropic"]


def test_a_driver_of_which_only_own_keys_are_said_is_not_opened_for_it() -> None:
    config = build(values_of({"llm.providers.openai.ownKeys": "off", "llm.providers.anthropic.ownKeys": "auto"}))
    assert (config.takes_own_keys("openai"), config.takes_own_keys("anthropic"), config.providers) == (False, True, {})
    assert list(config.driver_settings_by_provider) == ["local"]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"llm.providers.backup.model": "m"}, "llm.providers.backup.driver"),
        ({"llm.providers.backup.driver": "nobody"}, "one of: anthropic"),
        ({"llm.providers.openai.driver": "anthropic"}, "another name"),
        ({"system.auth": "off", "system.host": "0.0.0.0"}, "system.auth: off is only for"),
        ({"system.oidc.issuer": "https://i"}, "go together"),
    ],
)
def test_what_does_not_go_together_is_refused(values: dict[str, Value], word: str) -> None:
    with pytest.raises(ConfigInvalid, match=word):
        build(values_of(values))


def test_what_a_program_says_otherwise_lies_above_what_was_loaded() -> None:
    assert base_of(ServerConfig()) == ()
    (layer,) = base_of(ServerConfig(system=SystemSettings(port=9)))
    assert (layer.name, {key: one.value for key, one in layer.values.items()}) == ("code", {"system.port": 9})
    file = Layer("file", {"system.port": SettingValue(9, "f:1"), "llm.apiKey": SettingValue(Secret("k"), "f:2")})
    loaded = build(merge([file]), layers=(file,))
    assert base_of(loaded) == (file,)
    assert [one.name for one in base_of(replace(loaded, system=replace(loaded.system, data_dir=MEMORY)))] == ["file", "code"]
