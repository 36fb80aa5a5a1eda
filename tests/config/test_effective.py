"""What a setting comes to that nobody has set, and why."""

import pytest
from tests.config.fakes import layer

from agentvm.config.catalogue import SETTINGS
from agentvm.config.effective import derive, explain
from agentvm.config.layers import merge
from agentvm.config.server import ServerConfig
from agentvm.model.secret import Secret
from agentvm.tiers.base import default_slots


@pytest.mark.parametrize(
    ("given", "provider", "model", "word"),
    [
        ({}, "local", "smollm2-135m", "embedded"),
        ({"llm__apiKey": Secret("k")}, "anthropic", "claude-sonnet-5", "anthropic"),
        ({"llm__baseUrl": "http://x.test/v1"}, "openai", "gpt-5.4-mini", "openai"),
        ({"llm__model": "openai/gpt-9", "llm__apiKey": Secret("k")}, "openai", None, "llm.model names"),
        ({"llm__model": "weights/tiny.gguf"}, "local", None, "weights"),
    ],
)
def test_who_answers_by_default_is_explained(given: dict[str, object], provider: str, model: str | None, word: str) -> None:
    derived = derive(merge([layer(**given)]))
    assert derived["llm.provider"].value == provider
    assert word in derived["llm.provider"].why
    assert (derived["llm.model"].value if "llm.model" in derived else None) == model


def test_the_model_of_a_named_provider_is_explained() -> None:
    given = layer(llm__provider="gw", llm__providers__gw__driver="openai", llm__providers__gw__model="m1")
    derived = derive(merge([given, layer(llm__providers__gw__baseUrl="http://x.test/v1")]))
    assert (derived["llm.model"].value, derived["llm.model"].why) == ("m1", "derived: the model of llm.providers.gw")
    assert "llm.provider" not in derived


@pytest.mark.parametrize(("host", "auth", "unpriced"), [("127.0.0.1", "off", "on"), ("0.0.0.0", "on", "off")])
def test_auto_is_resolved(host: str, auth: str, unpriced: str) -> None:
    derived = derive(merge([layer(system__host=host)]))
    assert (derived["system.auth"].value, derived["billing.allowUnpriced"].value) == (auth, unpriced)
    assert host in derived["system.auth"].why
    assert "system.auth" not in derive(merge([layer(system__auth="on")]))


def test_values_of_the_machine_and_of_named_providers_are_derived() -> None:
    provider = {"llm__providers__gw__driver": "openai", "llm__providers__gw__baseUrl": "http://x.test/v1"}
    derived = derive(merge([layer(system__port=81, cluster__name="first", defaults__timeout=5_000, **provider)]))
    assert derived["system.publicUrl"].value == "http://localhost:81"
    assert derived["tools.slots"].value == default_slots()
    assert "cluster.name" not in derived
    assert derive(merge([layer()]))["cluster.name"].value == ServerConfig().node_name
    of_provider = {key.rpartition(".")[2]: item.value for key, item in derived.items() if key.startswith("llm.providers.gw.")}
    assert of_provider == {"model": "gpt-5.4-mini", "timeout": 5_000, "ownKeys": "off"}


def test_values_that_do_not_go_together_derive_nothing() -> None:
    assert derive(merge([layer(llm__fallback=("nobody",))])) == {}


def test_each_layer_has_its_words_and_a_tenant_learns_no_more_than_that_the_server_chose() -> None:
    values = merge([layer(limits__steps=5)])
    steps = explain(SETTINGS["limits.steps"], "limits.steps", values["limits.steps"], {}, of_tenant=False)
    assert (steps.value, steps.why) == (5, "set in the configuration file")
    assert explain(SETTINGS["limits.steps"], "limits.steps", values["limits.steps"], {}, of_tenant=True).why == (
        "the server's value"
    )
    derived = derive(values)
    assert explain(SETTINGS["llm.model"], "llm.model", None, derived, of_tenant=True).why == "chosen by the server"
    unset = explain(SETTINGS["retention.sessionDays"], "retention.sessionDays", None, {}, of_tenant=False)
    assert (unset.value, unset.source, unset.why) == (None, "unset", "not set: never")


def test_the_source_of_every_value_is_named() -> None:
    values = merge([layer(limits__steps=5)])
    derived = derive(values)
    for key, setting in SETTINGS.items():
        effective = explain(setting, key, values.get(key), derived, of_tenant=False)
        expected = "derived" if key in derived else "unset" if setting.default is None else "default"
        assert effective.source == ("file" if key == "limits.steps" else expected), key
        assert effective.why


def test_the_model_that_answers_is_named_with_the_reason() -> None:
    model = derive(merge([]))["llm.model"]
    assert (model.value, model.source) == ("smollm2-135m", "derived")
    assert model.why == (
        "derived: no provider, model, key or address is configured, so the embedded model answers; its default model"
    )
    chosen = derive(merge([layer(llm__provider="openai")]))["llm.model"]
    assert (chosen.value, chosen.why) == ("gpt-5.4-mini", "derived: llm.provider is openai; its default model")
