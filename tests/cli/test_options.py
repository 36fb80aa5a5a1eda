from pathlib import Path

import pytest

from agentvm.cli.options import configure, loop_options


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AVM_HOST", "AVM_PORT", "AVM_DATA_DIR", "LLM_PROVIDER", "LLM_MODEL", "LLM_API_KEY", "LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_flags_are_laid_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AVM_PORT", "9000")
    monkeypatch.setenv("AVM_HOST", "::1")
    config = configure(port=0, data_dir=Path("here"))
    assert (config.host, config.port, config.data_dir) == ("::1", 0, Path("here"))
    config = configure(host="localhost")
    assert (config.host, config.port) == ("localhost", 9000)


def test_a_model_flag_that_names_its_driver_outweighs_the_provider_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    assert configure(model="scripted").default_model == "scripted"
    assert configure(model="anthropic/claude").default_model == "anthropic/claude"


def test_a_bare_model_flag_keeps_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_PROVIDER", "openai")
    monkeypatch.setenv("LLM_MODEL", "gpt-other")
    assert configure(model="gpt-mine").default_model == "openai/gpt-mine"
    assert configure().default_model == "openai/gpt-other"


def test_uvloop_is_used_where_it_is_installed() -> None:
    assert loop_options() == {"use_uvloop": True}
