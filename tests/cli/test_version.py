import pytest

from agentvm.cli.main import run
from agentvm.version import VERSION


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["version"]) == 0
    assert capsys.readouterr().out == f"AgentVM {VERSION}\n"
