import json
from pathlib import Path

import pytest

from agentvm.cli.main import run


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("LLM_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LLM_MODEL", "LLM_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AVM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("AVM_MODEL_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("LLM_PROVIDER", "scripted")


def test_what_could_be_better_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--port", "0"]) == 0
    out = capsys.readouterr().out
    assert "warn  weights " in out
    assert "Run: avm model pull" in out
    assert out.endswith("AgentVM can work.\n")


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
