import json
from pathlib import Path

import anyio.to_thread
import pytest

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.cli.main import run
from agentvm.config import SystemSettings


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LLM_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LLM_MODEL", "LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AVM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AVM_MODEL_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("LLM_PROVIDER", "scripted")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_a_healthy_state_is_not_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--port", "0"]) == 0
    out = capsys.readouterr().out
    assert "warn" not in out
    assert "scripted models do not need it" in out
    assert out.endswith("AgentVM is ready.\n")


async def test_the_server_that_runs_is_asked_and_what_another_shell_has_set_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=str(tmp_path / "data"), shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        # Another shell than the one that started the server, without its key.
        monkeypatch.setenv("LLM_PROVIDER", "anthropic")
        assert await anyio.to_thread.run_sync(run, ["doctor"]) == 0
        out = capsys.readouterr().out
        assert f"runs at {server.url}" in out
        assert "warn" not in out
        assert out.endswith("AgentVM is healthy.\n")
        assert await anyio.to_thread.run_sync(run, ["doctor", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["ok"]
        # Flags ask how another would run.
        assert await anyio.to_thread.run_sync(run, ["doctor", "--model", "anthropic"]) == 1
        assert "in use by a running server" in capsys.readouterr().out


def test_a_failure_is_exit_code_1_with_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--port", "0", "--model", "anthropic"]) == 1
    out = capsys.readouterr().out
    assert "fail  model " in out
    assert "ANTHROPIC_API_KEY" in out


def test_programs_get_json_and_nobody_gets_the_key(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LLM_API_KEY", "sk-hidden")
    assert run(["doctor", "--port", "0", "--model", "anthropic", "--json"]) == 0
    out = capsys.readouterr().out
    report = json.loads(out)
    assert report["ok"]
    assert {check["status"] for check in report["checks"]} <= {"ok", "warn"}
    assert set(report["checks"][0]) == {"name", "status", "text", "remedy"}
    assert "sk-hidden" not in out
