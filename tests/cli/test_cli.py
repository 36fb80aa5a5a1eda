import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.program import SOURCE, WAIT, environment

from agentvm.cli import program

SCRIPT = "import sys; from agentvm.cli.main import main; sys.exit(main())"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """An `avm` such as pip writes, in a folder with a space in its name."""
    script = tmp_path / "my venv" / "bin" / "avm"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!{sys.executable}\n{SCRIPT}\n")
    script.chmod(0o755)
    return script


def test_a_command_is_named_as_it_was_started(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    monkeypatch.setattr(sys, "argv", [".venv/bin/avm", "serve"])
    assert program() == ".venv/bin/avm"
    monkeypatch.setattr(sys, "argv", [str(installed)])
    assert program() == f"'{installed}'"


def test_its_name_is_enough_where_the_shell_finds_it(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setattr(sys, "argv", [str(installed)])
    assert program() == "avm"


def test_another_avm_on_the_path_is_not_this_one(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setattr(sys, "argv", [".venv/bin/avm"])
    assert program() == ".venv/bin/avm"


def test_who_is_no_avm_calls_it_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert program() == "avm"


def test_messages_and_usage_name_the_command_that_works_here(installed: Path, tmp_path: Path) -> None:
    env = environment(tmp_path, AVM_MODEL_DIR=str(tmp_path / "models"), PYTHONPATH=str(SOURCE))

    def run(*arguments: str) -> str:
        command = ["my venv/bin/avm", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=WAIT, check=False)
        return done.stdout + done.stderr

    assert run("model", "list").endswith("Run: 'my venv/bin/avm' model pull\n")
    assert "Try ''my venv/bin/avm' serve --help' for help." in run("serve", "--fly")
