from pathlib import Path

import click
import pytest

from agentvm.cli.serve import serve
from agentvm.cli.server_options import FLAGS, configure, flag_help

pytestmark = pytest.mark.usefixtures("bare")


def test_flags_are_laid_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AVM_PORT", "9000")
    monkeypatch.setenv("AVM_HOST", "::1")
    config = configure(port=0, data_dir="here")
    assert (config.system.host, config.system.port, config.data_dir) == ("::1", 0, Path("here"))
    config = configure(host="localhost")
    assert (config.system.host, config.system.port) == ("localhost", 9000)


def test_a_model_flag_that_names_its_driver_outweighs_the_provider_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    assert configure(model="scripted").default_model == "scripted"
    assert configure(model="anthropic/claude").default_model == "anthropic/claude"


def test_a_bare_model_flag_keeps_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    monkeypatch.setenv("LLM_MODEL", "gpt-other")
    assert configure(model="gpt-mine").default_model == "openai/gpt-mine"
    assert configure().default_model == "openai/gpt-other"


def test_every_flag_of_a_setting_is_an_option_of_the_server() -> None:
    options = {option.name: option for option in serve.params if isinstance(option, click.Option)}
    for name, setting in FLAGS.items():
        option = options[name]
        assert option.opts == [setting.declaration.flag]
        assert option.help == flag_help(setting)
        assert option.multiple == setting.is_list
    assert options["port"].type.name == "integer range"
    assert flag_help(FLAGS["port"]) == "Port to listen on; 0 takes any free one (AVM_PORT; default: 8080)."
