from pathlib import Path

import pytest

from agentvm.config import (
    DEFAULT_PORT,
    MEMORY,
    LlmSettings,
    ProviderSettings,
    ServerConfig,
    SystemSettings,
    from_environment,
)
from agentvm.config.layers import SettingValue
from agentvm.drivers.registry import DRIVERS, KEY_VARIABLES
from agentvm.errors import ConfigInvalid
from agentvm.model.limits import Limits
from agentvm.model.secret import Secret
from agentvm.model.settings import OidcConfig

KEY = Secret("sk-1")


@pytest.mark.parametrize(
    ("config", "model"),
    [
        (ServerConfig(), "local"),
        (ServerConfig(llm=LlmSettings(model="openai/gpt-x")), "openai/gpt-x"),
        (ServerConfig(llm=LlmSettings(model="anthropic")), "anthropic"),
        (ServerConfig(llm=LlmSettings(model="openai/gpt-x", api_key=KEY)), "openai/gpt-x"),
        (ServerConfig(llm=LlmSettings(provider="openai")), "openai"),
        (ServerConfig(llm=LlmSettings(provider="openai", model="gpt-x")), "openai/gpt-x"),
        (ServerConfig(llm=LlmSettings(provider="openai", model="openai/gpt-x")), "openai/gpt-x"),
        (ServerConfig(llm=LlmSettings(provider="openai", model="openai")), "openai"),
        (ServerConfig(llm=LlmSettings(provider="openai", model="org/gpt-x")), "openai/org/gpt-x"),
        (ServerConfig(llm=LlmSettings(provider="local", api_key=KEY)), "local"),
        (ServerConfig(llm=LlmSettings(api_key=KEY)), "anthropic"),
        (ServerConfig(llm=LlmSettings(api_key=KEY, model="claude-x")), "anthropic/claude-x"),
        (ServerConfig(llm=LlmSettings(api_key=KEY, base_url="http://h")), "anthropic"),
        (ServerConfig(llm=LlmSettings(base_url="http://h")), "openai"),
        (ServerConfig(llm=LlmSettings(base_url="http://h", model="qwen")), "openai/qwen"),
        (ServerConfig(llm=LlmSettings(model="some.gguf")), "local/some.gguf"),
        (ServerConfig(llm=LlmSettings(model="some.gguf", api_key=KEY)), "local/some.gguf"),
    ],
)
def test_the_default_model_follows_from_what_is_set(config: ServerConfig, model: str) -> None:
    assert config.default_model == model


@pytest.mark.parametrize(
    ("config", "remedy"),
    [
        (ServerConfig(llm=LlmSettings(provider="nobody")), "anthropic"),
        (ServerConfig(llm=LlmSettings(provider="")), "anthropic"),
        (ServerConfig(llm=LlmSettings(model="gpt-x")), "<provider>/gpt-x"),
        (ServerConfig(llm=LlmSettings(model="nobody/gpt-x")), "anthropic"),
    ],
)
def test_a_model_nobody_serves_is_refused_with_the_remedy(config: ServerConfig, remedy: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        _ = config.default_model
    assert remedy in str(refused.value)


def test_an_empty_environment_gives_the_defaults() -> None:
    assert from_environment({}) == ServerConfig()
    empty = dict.fromkeys(["AVM_HOST", "AVM_DATA_DIR", "AVM_MODEL_DIR", "LLM_API_KEY", "LLM_MODEL", "LLM_PROVIDER"], "")
    assert from_environment({**empty, "LLM_BASE_URL": "", "AVM_LOG_LEVEL": "", "AVM_PORT": ""}) == ServerConfig()


def test_the_environment_fills_every_setting_it_names() -> None:
    config = from_environment(
        {
            "AVM_HOST": "::1",
            "AVM_PORT": "0",
            "AVM_DATA_DIR": "/srv/data",
            "AVM_MODEL_DIR": "/srv/models",
            "AVM_LOG_LEVEL": "debug",
            "LLM_PROVIDER": "openai",
            "LLM_MODEL": "gpt-x",
            "LLM_API_KEY": "sk-1",
            "LLM_BASE_URL": "http://h/v1",
        }
    )
    assert (config.system.host, config.system.port, config.system.log_level) == ("::1", 0, "debug")
    assert (config.data_dir, config.model_dir) == (Path("/srv/data"), Path("/srv/models"))
    assert (config.llm.provider, config.llm.model, config.llm.base_url) == ("openai", "gpt-x", "http://h/v1")
    assert config.llm.api_key is not None
    assert config.llm.api_key.reveal() == "sk-1"
    assert (DEFAULT_PORT, ServerConfig().data_dir) == (8080, Path("~/.agentvm"))


@pytest.mark.parametrize("port", ["http", "-1", "65536", "80.5", " 80", "²", "1" * 5_000])
def test_a_port_that_is_none_is_refused_with_the_remedy(port: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        from_environment({"AVM_PORT": port})
    assert "0 to 65535" in str(refused.value)


def test_a_driver_gets_the_key_the_url_and_the_turns_deadline() -> None:
    config = ServerConfig(llm=LlmSettings(api_key=KEY, base_url="http://h", model_dir="m"), limits=Limits(turn_seconds=5))
    settings = config.driver_settings("openai")
    assert (settings.api_key, settings.base_url, settings.model_dir) == (KEY, "http://h", Path("m"))
    assert settings.timeout == 5


def test_a_drivers_own_key_serves_where_there_is_no_key_for_all() -> None:
    environ = {variable: f"sk-{driver}" for driver, variable in KEY_VARIABLES.items()}
    own, shared = from_environment(environ), from_environment({**environ, "LLM_API_KEY": "sk-all"})
    for driver in KEY_VARIABLES:
        for config, key in ((own, f"sk-{driver}"), (shared, "sk-all")):
            found = config.driver_settings(driver).api_key
            assert found is not None
            assert found.reveal() == key
    assert own.driver_settings("local").api_key is None
    assert own.default_model == "local"


def test_a_drivers_own_key_never_goes_to_another_address() -> None:
    keys = dict.fromkeys(KEY_VARIABLES.values(), "sk-own")
    config = from_environment({**keys, "LLM_BASE_URL": "http://elsewhere/v1"})
    for driver in DRIVERS:
        assert config.driver_settings(driver).api_key is None
    meant = from_environment({**keys, "LLM_BASE_URL": "http://elsewhere/v1", "LLM_API_KEY": "sk-theirs"})
    assert meant.driver_settings("openai").api_key is meant.llm.api_key is not None


@pytest.mark.parametrize(
    ("config", "driver", "model"),
    [
        (ServerConfig(llm=LlmSettings(model="openai/gpt-x")), "openai", "gpt-x"),
        (ServerConfig(llm=LlmSettings(model="openai/gpt-x")), "local", None),
        (ServerConfig(llm=LlmSettings(provider="openai", model="org/gpt-x")), "openai", "org/gpt-x"),
        (ServerConfig(llm=LlmSettings(provider="openai")), "openai", None),
        (ServerConfig(llm=LlmSettings(model="/srv/some.gguf")), "local", "/srv/some.gguf"),
        (ServerConfig(llm=LlmSettings(model="/srv/some.gguf", api_key=KEY)), "anthropic", None),
        (ServerConfig(), "local", None),
    ],
)
def test_the_chosen_model_is_told_to_the_driver_that_serves_it_alone(
    config: ServerConfig, driver: str, model: str | None
) -> None:
    assert config.driver_settings(driver).model == model


def test_directories_are_paths() -> None:
    config = ServerConfig(system=SystemSettings(data_dir="some/where"), llm=LlmSettings(model_dir="some/where"))
    assert (config.data_dir, config.model_dir) == (Path("some/where"), Path("some/where"))
    assert ServerConfig(system=SystemSettings(data_dir=MEMORY)).data_dir is None


@pytest.mark.parametrize(
    ("value", "origins"),
    [
        ("", ()),
        (" , ", ()),
        ("*", ("*",)),
        ("https://a.example", ("https://a.example",)),
        (" https://a.example ,http://b.example:8080,", ("https://a.example", "http://b.example:8080")),
    ],
)
def test_the_environment_lists_origins_between_commas(value: str, origins: tuple[str, ...]) -> None:
    assert from_environment({"AVM_ALLOW_ORIGINS": value}).system.allow_origins == origins


def test_no_address_is_shown_by_accident_for_it_may_carry_credentials() -> None:
    url = "http://me:sk-planted@host/v1?key=sk-planted"
    entry = ProviderSettings(driver="openai", base_url=url)
    config = ServerConfig(
        llm=LlmSettings(base_url=url, providers={"x": entry}, model="openai/x"),
        system=SystemSettings(oidc=OidcConfig(jwks_url=url)),
    )
    for shown in (config, entry, config.driver_settings_by_provider, SettingValue(url)):
        assert "sk-planted" not in repr(shown)


def test_tenants_use_their_own_keys_with_vendors_and_not_with_the_operators_endpoints_unless_it_is_said() -> None:
    config = ServerConfig(
        llm=LlmSettings(
            provider="main",
            base_url="http://vllm.test/v1",
            providers={
                "main": ProviderSettings(driver="openai"),
                "vllm": ProviderSettings(driver="openai", base_url="http://10.0.0.5:8000/v1"),
                "claude": ProviderSettings(driver="anthropic", own_keys="off"),
                "openai": ProviderSettings(driver="openai", base_url="http://proxy.test"),
                "shared": ProviderSettings(driver="openai", base_url="http://shared.test", own_keys="on"),
            },
        ),
    )
    taken = {name: config.takes_own_keys(name) for name in (*config.providers, "anthropic", "unknown")}
    assert taken == {
        "main": False,
        "vllm": False,
        "claude": False,
        # The tenant's key goes to the vendor, not to the proxy.
        "openai": True,
        "shared": True,
        "anthropic": True,
        "unknown": True,
    }
