from pathlib import Path

import pytest

from agentvm.config.catalogue import SETTINGS, convert, find
from agentvm.config.layers import merge
from agentvm.config.load import (
    VARIABLES,
    check_conflicts,
    environment_layer,
    file_of,
    flag_layer,
    from_environment,
    layers_of,
    load,
    variable_of,
)  # fmt: skip
from agentvm.errors import ConfigInvalid
from agentvm.model.account import Allowance
from agentvm.model.policy import Policy


def test_every_setting_has_a_variable_by_rule() -> None:
    samples = {int: "70", float: "1", tuple: "a,b", Allowance: "{tokens_per_day: 5}", Policy: "[{do: ask}]"}
    for key, setting in SETTINGS.items():
        if key.startswith("billing.prices"):
            continue
        named = key.replace("*", "our_own")
        options = [option for option in getattr(setting.kind, "__args__", ()) if isinstance(option, str)]
        few = (*options, *setting.items)
        text = few[0] if few else samples.get(setting.kind, "1.5" if "Decimal" in str(setting.kind) else "a")
        variable = variable_of(named)
        assert variable is not None
        layer, problems = environment_layer({variable: text})
        assert problems == []
        found = find(named)
        assert found is not None
        assert list(layer.values) == [named]
        if not setting.is_secret:
            assert layer.values[named].value == convert(found, text, text=True)
    assert variable_of("limits.turnSeconds") == "AVM_LIMITS__TURN_SECONDS"
    assert variable_of("llm.providers.our_own.apiKey") == "AVM_LLM__PROVIDERS__OUR_OWN__API_KEY"
    for odd in ("llm.providers.my-own.apiKey", "llm.providers.a__b.apiKey", "billing.prices.openai/x"):
        assert variable_of(odd) is None
    (problem,) = flag_layer({}, {"llm.providers.my-own.apiKey": "sk-1"})[1]
    assert "use the configuration file" in str(problem)


def test_a_short_name_sets_the_same_and_both_at_once_are_refused() -> None:
    for variable, key in VARIABLES.items():
        assert find(key) is not None, variable
    layer, problems = environment_layer({"AVM_PORT": "1", "AVM_SYSTEM__PORT": "2"})
    assert [str(one) for one in problems] == ["AVM_SYSTEM__PORT: system.port: it is also set by AVM_PORT; unset one of them"]
    layer, problems = environment_layer({"AVM_PORT": "", "AVM_SYSTEM__PORT": "2", "AVM_DEBUG": "1", "AVM_KEY": "x"})
    assert (problems, {key: one.place for key, one in layer.values.items()}) == ([], {"system.port": "AVM_SYSTEM__PORT"})


def test_a_variable_with_a_slip_is_refused_with_what_was_meant() -> None:
    _, problems = environment_layer({"AVM_LIMITS__TURN_SECOND": "5", "AVM_LLM__APIKEY": "sk-planted", "AVM_MARKUP": "much"})
    said = "\n".join(map(str, problems))
    assert "did you mean limits.turnSeconds?" in said
    assert "did you mean llm.apiKey?" in said
    assert "sk-planted" not in said
    assert "AVM_MARKUP: billing.markup: it is 'much'" in said


def test_layers_lie_above_each_other(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("system: {port: 1, host: '::1', logLevel: debug}\nlimits: {steps: 1}\n")
    environ = {"AVM_PORT": "2", "AVM_LOG_LEVEL": "error"}
    config = load(file, environ=environ, flags={"system.port": ("--port", 3)}, settings={"limits.steps": "9"})
    assert (config.system.host, config.system.port, config.system.log_level, config.limits.steps) == ("::1", 3, "error", 9)
    places = {key: one.source.place for key, one in merge(config.layers).items() if one.layer != "default"}
    assert places == {
        "system.host": f"{file}:1",
        "system.port": "--port",
        "system.logLevel": "AVM_LOG_LEVEL",
        "limits.steps": "--set limits.steps",
    }


def test_the_file_is_the_one_that_is_named_or_the_one_in_the_data_directory(tmp_path: Path) -> None:
    environ = {"AVM_DATA_DIR": str(tmp_path)}
    assert load(environ=environ).system.port == 8080
    (tmp_path / "config.yaml").write_text("system: {port: 1}")
    assert load(environ=environ).system.port == 1
    (tmp_path / "other.yaml").write_text("system: {port: 2}")
    named = environ | {"AVM_CONFIG": str(tmp_path / "other.yaml")}
    assert load(environ=named).system.port == 2
    assert load(tmp_path / "config.yaml", environ=named).system.port == 1
    assert load(environ=environ, flags={"system.dataDir": ("--memory", ":memory:")}).system.port == 8080
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load(tmp_path / "gone.yaml", environ=environ)
    (tmp_path / "config.yaml").write_text("system: {dataDir: elsewhere}")
    with pytest.raises(ConfigInvalid, match="use --config"):
        load(environ=environ)
    assert load(tmp_path / "config.yaml", environ={}).data_dir == Path("elsewhere")
    assert file_of(None, {"HOME": ""}, ()) is not None


def test_flags_that_cannot_be_are_told_together_and_secrets_are_not_taken() -> None:
    _, problems = flag_layer({}, {"limits.step": "1", "llm.apiKey": "sk-planted", "system.port": "x"})
    said = [str(one) for one in problems]
    assert len(said) == 3
    assert "LLM_API_KEY" in said[1]
    assert "sk-planted" not in "".join(said)
    with pytest.raises(ConfigInvalid, match="2 settings"):
        load(environ={"AVM_PORT": "x", "AVM_DATA_DIR": ":memory:"}, settings={"limits.step": "1"})


def test_what_is_right_one_by_one_may_not_go_together() -> None:
    layers, problems = layers_of(None, {"LLM_MODEL": "mystery", "AVM_DATA_DIR": ":memory:"})
    assert problems == []
    (problem,) = check_conflicts(layers)
    assert str(problem).startswith("LLM_MODEL: llm.model: 'mystery' does not name its provider")
    layers, _ = layers_of(None, {"AVM_DATA_DIR": ":memory:"})
    assert check_conflicts(layers) == []


def test_the_environment_alone_reads_no_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("broken: [")
    assert from_environment({"AVM_DATA_DIR": str(tmp_path)}).system.port == 8080


def test_everything_that_is_wrong_is_told_at_once_also_what_is_wrong_only_together(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "limits: {steps: x}\nllm:\n  provider: nosuch\n  fallback: [gw, other]\n  providers: {gw: {drivr: openai}}\n"
    )
    with pytest.raises(ConfigInvalid) as refused:
        load(file, environ={"AVM_AUTH": "off"}, flags={"system.host": ("--host", "0.0.0.0")})
    said = str(refused.value)
    for place in (f"{file}:1: limits.steps", f"{file}:3: llm.provider", f"{file}:4: llm.fallback: it names 'other'"):
        assert place in said
    assert "AVM_AUTH: system.auth: off is only for" in said
    # Its driver is misspelt, and said to be: who names the provider is not to blame.
    assert "names 'gw'" not in said


def test_a_provider_without_the_key_that_it_needs_is_told_before_the_start(tmp_path: Path) -> None:
    file, environ = tmp_path / "c.yaml", {"AVM_DATA_DIR": ":memory:"}
    file.write_text("llm: {provider: anthropic}")
    (problem,) = check_conflicts(layers_of(file, environ)[0])
    assert (problem.key, "ANTHROPIC_API_KEY" in problem.text) == ("llm.providers.anthropic.apiKey", True)
    assert check_conflicts(layers_of(file, {**environ, "ANTHROPIC_API_KEY": "k"})[0]) == []


def test_standard_variables_count_only_where_nothing_else_says_it(tmp_path: Path) -> None:
    standard = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://theirs:4318",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=sk-planted",
        "OTEL_SERVICE_NAME": "theirs",
    }
    file = tmp_path / "config.yaml"
    file.write_text("otel: {serviceName: ours}\n", encoding="utf-8")
    both = load(file, environ=standard)
    assert (both.otel.endpoint, both.otel.service_name) == ("http://theirs:4318", "ours")
    assert both.otel.headers is not None
    assert "planted" not in repr(both)
    assert both.otel.headers in both.secrets
    assert load(None, environ={**standard, "AVM_OTEL__ENDPOINT": "http://ours:4318"}).otel.service_name == "theirs"
    assert from_environment(standard).otel.endpoint == "http://theirs:4318"
    assert from_environment({}).otel.endpoint is None


def test_what_is_sent_to_one_collector_is_not_sent_to_another() -> None:
    standard = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://theirs", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=x"}
    assert load(None, environ={**standard, "AVM_OTEL__ENDPOINT": "http://ours"}).otel.headers is None
    again = load(None, environ={**standard, "AVM_OTEL__ENDPOINT": "http://theirs"})
    assert again.otel.headers is not None


def test_headers_that_are_none_are_refused_and_not_shown() -> None:
    with pytest.raises(ConfigInvalid, match=r"AVM_OTEL__HEADERS.*otel\.headers.*name=value") as caught:
        load(None, environ={"AVM_OTEL__HEADERS": "sk-planted"})
    assert "planted" not in str(caught.value)
    with pytest.raises(ConfigInvalid, match=r"AVM_OTEL__ENDPOINT.*otel\.endpoint"):
        load(None, environ={"AVM_OTEL__ENDPOINT": "nowhere"})


@pytest.mark.parametrize(
    ("others", "why"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317"}, "it must be an address"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x" * 10_000}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "is grpc"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "True"}, "OTEL_SDK_DISABLED"),
    ],
)
def test_a_variable_of_other_programs_that_cannot_be_used_keeps_nobody_from_starting(others: dict[str, str], why: str) -> None:
    config = load(None, environ={**others, "OTEL_SERVICE_NAME": "theirs"})
    assert (config.otel.endpoint, config.otel.service_name) == (None, "theirs")
    ((place, said),) = (one for layer in config.layers for one in layer.ignored)
    assert place == "OTEL_EXPORTER_OTLP_ENDPOINT"
    assert why in said


def test_headers_of_other_programs_that_are_none_are_left_aside_and_not_shown() -> None:
    config = load(None, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "sk-planted"})
    assert (config.otel.endpoint, config.otel.headers) == ("http://c", None)
    ((place, said),) = (one for layer in config.layers for one in layer.ignored)
    assert (place, "planted" in said) == ("OTEL_EXPORTER_OTLP_HEADERS", False)
