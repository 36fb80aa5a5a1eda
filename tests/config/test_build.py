from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import assume, given
from tests.config.values import flat_values, plainly

from agentvm.config.build import MEMORY, base_of, build, build_limits, flatten
from agentvm.config.catalogue import DEFAULTS, Value
from agentvm.config.layers import Given, Layer, Values, merge
from agentvm.config.server import ProviderConfig, ServerConfig
from agentvm.errors import ConfigInvalid
from agentvm.model.limits import Limits
from agentvm.model.money import ModelRate
from agentvm.model.secret import Secret

FULL = ServerConfig(
    host="::1",
    port=0,
    data_dir=None,
    llm_provider="backup",
    llm_model="m",
    llm_api_key=Secret("k1"),
    llm_base_url="http://h",
    provider_keys={"anthropic": Secret("k2")},
    own_keys={"backup": True, "openai": False},
    providers={
        "backup": ProviderConfig(
            driver="openai", model="m2", api_key=Secret("k3"), base_url="http://b", timeout=1.5, max_concurrent=7
        )
    },
    fallback=("local",),
    model_dir=Path("models"),
    allow_origins=("*",),
    grace=1.5,
    log_level="debug",
    auth="on",
    admin_key=Secret("k4"),
    server_key=Secret("k5"),
    oidc_issuer="https://i",
    oidc_audience="a",
    oidc_jwks_url="https://j",
    oidc_tenant_claim="t",
    markup=Decimal("1.2"),
    prices={"openai/x.y": ModelRate(input=Decimal(1), output=Decimal(2))},
    allow_unpriced=False,
    limits=Limits(inbox=1, steps=2, turn_cost=1_500_000_000, turn_seconds=3.5, max_tokens=9, silence_seconds=0.5, agents=7),
)


def values_of(values: dict[str, Value]) -> Values:
    return merge([Layer("file", {key: Given(value) for key, value in values.items()})])


def test_nothing_gives_the_defaults() -> None:
    assert build(values_of({})) == ServerConfig()
    assert build_limits(values_of({})) == Limits()


def test_a_config_that_is_taken_apart_is_the_same_when_it_is_put_together() -> None:
    assert build(values_of(flatten(FULL))) == FULL
    assert {key: value for key, value in flatten(ServerConfig()).items() if key not in DEFAULTS} == {}
    assert flatten(FULL)["system.dataDir"] == MEMORY


@given(flat_values())
def test_values_that_go_together_come_back(values: dict[str, Value]) -> None:
    try:
        config = build(values_of(values))
    except ConfigInvalid:
        assume(False)
    again = flatten(config)
    for key, value in values.items():
        if key in ("system.dataDir", "llm.modelDir"):
            assert Path(str(again[key])) == Path(str(value))
        elif not key.endswith(".driver"):
            assert plainly(again[key]) == plainly(value), key


def test_a_driver_of_which_only_the_key_is_said_is_not_opened_for_it() -> None:
    config = build(values_of({"llm.providers.anthropic.apiKey": Secret("k")}))
    assert (set(config.provider_keys), config.providers, list(config.wanted)) == ({"anthropic"}, {}, ["local"])
    named = build(values_of({"llm.providers.anthropic.apiKey": Secret("k"), "llm.providers.anthropic.model": "m"}))
    assert named.providers["anthropic"].driver == "anthropic"


def test_a_driver_of_which_only_own_keys_are_said_is_not_opened_for_it() -> None:
    config = build(values_of({"llm.providers.openai.ownKeys": "off", "llm.providers.anthropic.ownKeys": "auto"}))
    assert (config.own_keys, config.provider_keys, config.providers) == ({"openai": False}, {}, {})
    assert list(config.wanted) == ["local"]


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
    (layer,) = base_of(ServerConfig(port=9))
    assert (layer.name, {key: one.value for key, one in layer.given.items()}) == ("code", {"system.port": 9})
    file = Layer("file", {"system.port": Given(9, "f:1"), "llm.apiKey": Given(Secret("k"), "f:2")})
    loaded = build(merge([file]), layers=(file,))
    assert base_of(loaded) == (file,)
    assert [one.name for one in base_of(replace(loaded, data_dir=None))] == ["file", "code"]
