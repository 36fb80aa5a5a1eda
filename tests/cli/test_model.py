import hashlib
from pathlib import Path

import pytest

from agentvm.cli.main import run
from agentvm.cli.model import is_complete
from agentvm.drivers.model_catalog import CATALOG

GGUF = b"GGUF and the rest"


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AVM_MODEL_DIR", str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(GGUF)
    return path


def test_a_file_is_installed_and_listed(models: Path, weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "pull", str(weights), "--sha256", hashlib.sha256(GGUF).hexdigest()]) == 0
    assert (models / "tiny.gguf").read_bytes() == GGUF
    assert "local/tiny is installed" in capsys.readouterr().out
    assert run(["model", "list"]) == 0
    assert capsys.readouterr().out.startswith("local/tiny  0 MB  ")


def test_a_model_is_deleted_by_its_name(models: Path, weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["model", "pull", str(weights)])
    assert run(["model", "delete", "local/tiny", "--yes"]) == 0
    assert [*models.iterdir()] == []
    assert run(["model", "delete", "../tiny", "--yes"]) == 5
    assert "There is no model ../tiny" in capsys.readouterr().err
    assert weights.exists()


def test_a_file_can_be_installed_under_another_name(models: Path, weights: Path) -> None:
    assert run(["model", "pull", str(weights), "--name", "smollm2-135m"]) == 0
    assert not is_complete(models / "smollm2-135m.gguf", CATALOG["smollm2-135m"])


def test_an_empty_list_says_what_to_do(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "list"]) == 0
    assert "avm model pull" in capsys.readouterr().out


def test_the_default_model_is_marked(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models.mkdir()
    (models / "smollm2-135m.gguf").write_bytes(GGUF)
    assert run(["model", "list"]) == 0
    assert capsys.readouterr().out.endswith("(default)\n")


def test_models_that_can_be_installed_are_listed_with_their_size(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "list", "--all"]) == 0
    told = capsys.readouterr().out
    assert "avm model pull qwen2.5-coder-1.5b" in told
    assert "2.3 GB of memory" in told


def test_another_digest_is_refused(models: Path, weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "pull", str(weights), "--sha256", "0" * 64]) == 1
    assert capsys.readouterr().err.startswith("Error: ")
    assert list(models.glob("*.gguf")) == []


def test_a_url_needs_a_digest(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "pull", "--url", "http://127.0.0.1:9/tiny.gguf"]) == 1
    assert "--sha256" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["x.gguf", "--url", "http://a/x.gguf"], ["--sha256", "0" * 64], ["--name", "x"]])
def test_what_makes_no_sense_is_wrong_usage(models: Path, arguments: list[str]) -> None:
    assert run(["model", "pull", *arguments]) == 2
