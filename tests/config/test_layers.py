import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.values import flat_values, plainly

from agentvm.config.catalogue import DEFAULTS, Value, find
from agentvm.config.layers import PROVIDER, PROVIDER_KEYS, Layer, LayerName, SettingValue, merge, nest, overlay, shadowed
from agentvm.model.secret import Secret

ORDER: list[LayerName] = ["file", "environment", "flag", "code", "override"]


def layer(name: LayerName, values: dict[str, Value]) -> Layer:
    return Layer(name, {key: SettingValue(value, f"{name} place") for key, value in values.items()})


@given(st.lists(flat_values(), min_size=5, max_size=5))
def test_the_strongest_layer_that_says_something_counts(said: list[dict[str, Value]]) -> None:
    found = merge(layer(name, values) for name, values in zip(ORDER, said, strict=True))
    for key in {key for values in said for key in values} | set(DEFAULTS):
        if key in (*PROVIDER_KEYS, PROVIDER, "otel.headers"):
            continue
        strongest = next(((name, v[key]) for name, v in reversed(list(zip(ORDER, said, strict=True))) if key in v), None)
        wanted = ("default", DEFAULTS[key]) if strongest is None else strongest
        assert (found[key].layer, plainly(found[key].value)) == (wanted[0], plainly(wanted[1]))


def test_what_is_said_of_a_provider_goes_with_it() -> None:
    file = layer(
        "file", {"llm.provider": "anthropic", "llm.model": "claude", "llm.apiKey": Secret("k"), "llm.baseUrl": "http://a"}
    )
    same = merge([file, layer("environment", {"llm.provider": "anthropic"})])
    assert all(key in same for key in PROVIDER_KEYS)
    other = merge([file, layer("override", {"llm.provider": "openai", "llm.model": "gpt"})])
    assert (other["llm.model"].value, "llm.apiKey" in other, "llm.baseUrl" in other) == ("gpt", False, False)
    later = merge([layer("file", {"llm.provider": "anthropic"}), layer("environment", {"llm.apiKey": Secret("k")})])
    assert "llm.apiKey" in later
    bare = merge([layer("file", {"llm.apiKey": Secret("k")}), layer("flag", {"llm.provider": "openai"})])
    assert "llm.apiKey" in bare


@pytest.mark.parametrize(
    ("before", "change", "kept"),
    [
        ({"llm.apiKey": Secret("k")}, {"llm.provider": "openai"}, False),
        ({"llm.apiKey": Secret("k")}, {"llm.provider": "anthropic"}, True),
        ({"llm.apiKey": Secret("k")}, {"llm.model": "openai/gpt"}, False),
        ({"llm.apiKey": Secret("k")}, {"llm.model": "anthropic/claude"}, True),
        ({"llm.apiKey": Secret("k")}, {"llm.model": "claude"}, True),
        ({"llm.apiKey": Secret("k"), "llm.model": "openai/gpt"}, {"llm.model": "openai/gpt-2"}, True),
        ({"llm.apiKey": Secret("k"), "llm.model": "openai/x"}, {"llm.model": "s/x", "llm.providers.s.driver": "openai"}, False),
        ({"llm.apiKey": Secret("k"), "llm.provider": "openai"}, {"llm.model": "anthropic/claude"}, True),
        ({"llm.apiKey": Secret("k"), "llm.baseUrl": "http://a", "llm.provider": "openai"}, {"llm.model": "qwen/qwen3"}, True),
    ],
)  # fmt: skip
def test_a_change_at_run_time_hands_a_key_to_nobody_else(
    before: dict[str, Value], change: dict[str, Value], kept: bool
) -> None:
    found = merge([layer("environment", before), layer("override", change)])
    assert ("llm.apiKey" in found) is kept
    assert all(found[key].value == value for key, value in change.items())


def test_the_key_of_a_variable_is_for_whomever_a_flag_names() -> None:
    variables = layer("environment", {"llm.provider": "scripted", "llm.model": "m", "llm.apiKey": Secret("k")})
    found = merge([variables, layer("flag", {"llm.provider": "anthropic"})])
    assert ("llm.apiKey" in found, "llm.model" in found) == (True, False)


def test_a_tenant_overlays_what_it_may_and_stays_below_what_protects_the_server() -> None:
    system = merge([layer("file", {"limits.steps": 10, "llm.model": "m", "system.port": 1})])
    own: dict[str, Value] = {
        "limits.steps": 11,
        "limits.repeats": 3,
        "defaults.maxTokens": 10**6,
        "system.port": 2,
        "llm.apiKey": Secret("x"),
    }
    found = overlay(system, layer("tenant", own))
    assert {key for key, one in found.items() if one.layer == "tenant"} == {"limits.repeats", "defaults.maxTokens"}
    assert (found["limits.steps"].value, found["system.port"].value, "llm.apiKey" in found) == (10, 1, False)
    chosen = overlay(system, layer("tenant", {"llm.provider": "backup"}))
    assert "llm.model" not in chosen


@given(flat_values(), flat_values())
def test_a_tenant_has_never_more_than_the_server_allows(system: dict[str, Value], own: dict[str, Value]) -> None:
    found = overlay(merge([layer("override", system)]), layer("tenant", own))
    for key, one in found.items():
        setting = find(key)
        assert setting is not None
        if one.layer == "tenant":
            assert setting.declaration.tenant != "no"
        if setting.declaration.tenant == "lower":
            assert one.value <= merge([layer("override", system)])[key].value  # type: ignore[operator]


def test_what_an_override_hides_is_named() -> None:
    base = [layer("file", {"limits.steps": 1, "limits.inbox": 2}), layer("environment", {"limits.steps": 3})]
    hidden = shadowed(base, layer("override", {"limits.steps": 4, "limits.agents": 5}))
    assert {key: (one.layer, one.value) for key, one in hidden.items()} == {"limits.steps": ("environment", 3)}


def test_keys_become_a_tree() -> None:
    assert nest({"a.b": 1, "a.c.d": 2, "billing.prices.openai/x.y": 3}) == {
        "a": {"b": 1, "c": {"d": 2}},
        "billing": {"prices": {"openai/x.y": 3}},
    }
