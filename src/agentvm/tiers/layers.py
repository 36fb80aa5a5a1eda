"""Layers — the packages of sandboxes, installed once for each list of them and mounted read-only into the jails that need them.

A layer is built in a jail of its own, whose network is the index of packages and nothing else, and from wheels only: no code
of a package runs. The versions and hashes that were installed are kept with it. They outlive the layer: one that was collected
and is needed again is built from the same files, or not at all.
"""

import hashlib
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio.to_thread
import msgspec

from agentvm.errors import shorten
from agentvm.errors.tool import TierUnavailable
from agentvm.log import get_logger
from agentvm.model.base import Record
from agentvm.model.tier import INSTALL_SECONDS_MAX, Job, JobLimits, JobResult
from agentvm.sharing.keyed_lock import KeyedLock

logger = get_logger(__name__)

NO_INDEX = "packages need an index to be installed from: set tools.packages.index to its address, as that of pip's --index-url"
NO_PIP_STATUS = 3
LAYER_MAX_BYTES = 256 * 1024 * 1024
BUILD_LIMITS = JobLimits(
    wall_ms=INSTALL_SECONDS_MAX * 1000,
    cpu_seconds=300,
    memory_bytes=2**30,
    processes=16,
    disk_bytes=LAYER_MAX_BYTES,
    files=20_000,
)
LOCKS_MAX = 1_000
"""Locks that are kept of layers that are gone."""
_BUILDING = ".new"
_WORDS_MAX = 1000
"""Characters of the installer's last words in an error."""
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_VERSION = r"(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+"
PACKAGE = re.compile(
    rf"{_NAME}(?:\[{_NAME}(?:\s*,\s*{_NAME})*\])?\s*(?:{_VERSION}(?:\s*,\s*{_VERSION})*)?(?:\s+--hash=sha256:[0-9a-f]{{64}})*"
)
"""A name with extras, versions and hashes: no address, no path, no option of the installer."""

_INSTALL = """
import glob, os, runpy, sys
# The one that belongs to this Python first: that of the system may be too old for it.
wheels = glob.glob(os.path.join(os.path.dirname(os.__file__), "ensurepip/_bundled/pip-*.whl"))
wheels = wheels or glob.glob("/usr/share/python-wheels/pip-*.whl")
if not wheels:
    sys.exit(3)
sys.path.insert(0, sorted(wheels)[-1])
sys.argv = ["pip", "install", "--isolated", "--quiet", "--no-input", "--no-cache-dir", "--disable-pip-version-check"]
sys.argv += ["--only-binary", ":all:", "--no-compile", "--no-warn-script-location", "--proxy", "http://127.0.0.1:3128"]
sys.argv += ["--target", "layer", "--report", "report.json", "--requirement", "requirements.txt", *OPTIONS]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""

Run = Callable[[Job], Awaitable[JobResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSettings:
    """Where layers are kept, and where their packages come from."""

    folder: Path
    index: str | None = None
    hosts: tuple[str, ...] = ()
    """Hosts besides the index that its files may lie on."""
    most_bytes: int = 2**30


class LayerFile(Record):
    """A wheel that was installed."""

    name: str
    version: str
    sha256: str


class LayerLock(Record):
    """The contents of a layer."""

    packages: tuple[str, ...]
    files: tuple[LayerFile, ...]
    size: int
    """Bytes of all files of the layer."""


class Layers:
    """The layers of one server. Used from one event loop."""

    def __init__(self, settings: LayerSettings) -> None:
        self._settings = settings
        self.folder = settings.folder
        self._building = KeyedLock[str]()
        self._held: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, packages: Sequence[str], run: Run) -> AsyncIterator[str]:
        """The name of the layer with these packages, which stays while the context lasts. `run` runs a job in a jail.

        `TierUnavailable` if there is no index, or the packages cannot be had.
        """
        name = self._name(packages)
        self._held[name] = self._held.get(name, 0) + 1
        try:
            async with self._building.hold(name):
                if not await anyio.to_thread.run_sync(self._touch, name):
                    await self._build(name, tuple(packages), run)
            yield name
        finally:
            self._held[name] -= 1
            if not self._held[name]:
                del self._held[name]

    def _name(self, packages: Sequence[str]) -> str:
        if odd := [package for package in packages if PACKAGE.fullmatch(package) is None]:
            raise TierUnavailable(
                f"packages: {shorten(odd[0])!r} is not a package: a name with versions, such as 'requests==2.32.3'"
            )
        if self._settings.index is None:
            raise TierUnavailable(NO_INDEX)
        # What is installed depends on the interpreter as well.
        facts = [sorted(packages), self._settings.index, sys.implementation.cache_tag, sysconfig.get_platform()]
        return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]

    def _touch(self, name: str) -> bool:
        """Notes the use of a layer; False if it is not there."""
        try:
            os.utime(self._settings.folder / name)
        except FileNotFoundError:
            return False
        return True

    async def _build(self, name: str, packages: tuple[str, ...], run: Run) -> None:
        lock = await anyio.to_thread.run_sync(self._read_lock, name)
        result = await run(self._job(packages, lock))
        if not result.succeeded:
            raise TierUnavailable(f"The packages {shorten(', '.join(packages))} cannot be installed: {_why(result)}")
        await anyio.to_thread.run_sync(self._store, name, packages, result)
        logger.info("layer_built", layer=name, packages=len(packages))
        await anyio.to_thread.run_sync(self._collect)

    def _job(self, packages: tuple[str, ...], lock: LayerLock | None) -> Job:
        index = self._settings.index or ""
        parts = urlsplit(index)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
        options = ["--index-url", index]
        if parts.scheme == "http":
            options += ["--trusted-host", f"{host}:{port}"]
        lines = packages
        if lock is not None:
            options += ["--require-hashes", "--no-deps"]
            lines = tuple(f"{file.name}=={file.version} --hash=sha256:{file.sha256}" for file in lock.files)
        return Job(
            engine="python",
            code=f"OPTIONS = {options!r}\n{_INSTALL}",
            files={"requirements.txt": "\n".join(lines).encode()},
            limits=BUILD_LIMITS,
            network=(f"{host}:{port}", *self._settings.hosts),
        )

    def _store(self, name: str, packages: tuple[str, ...], result: JobResult) -> None:
        files = {path.removeprefix("layer/"): data for path, data in result.files.items() if path.startswith("layer/")}
        report: Any = msgspec.json.decode(result.files.get("report.json", b"{}"))
        lock = LayerLock(
            packages=packages,
            files=tuple(_installed(entry) for entry in report.get("install", ())),
            size=sum(map(len, files.values())),
        )
        if result.left_out or not files:
            raise TierUnavailable(f"The packages {shorten(', '.join(packages))} have more than {LAYER_MAX_BYTES} bytes")
        folder = self._settings.folder
        building = folder / f"{name}{_BUILDING}"
        shutil.rmtree(building, ignore_errors=True)
        for path, data in files.items():
            target = building / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            target.chmod(0o755 if f"layer/{path}" in result.executable else 0o644)
        # Jobs run as other users, and the server's umask keeps those out.
        for directory, _, _ in os.walk(building):
            os.chmod(directory, 0o755)
        self._lock_path(name).write_bytes(msgspec.json.encode(lock))
        building.rename(folder / name)

    def _collect(self) -> None:
        """Removes the layers that were not used for longest, until the others fit, and half-built ones."""
        layers: list[tuple[float, str, int]] = []
        for entry in os.scandir(self._settings.folder):
            if entry.is_dir() and entry.name.endswith(_BUILDING) and entry.name.removesuffix(_BUILDING) not in self._held:
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.is_dir() and (lock := self._read_lock(entry.name)) is not None:
                layers.append((entry.stat().st_mtime, entry.name, lock.size))
        total = sum(size for _, _, size in layers)
        for _, name, size in sorted(layers):
            if total > self._settings.most_bytes and name not in self._held:
                # Renamed first: nobody finds half of one.
                gone = self._settings.folder / f"{name}{_BUILDING}"
                (self._settings.folder / name).rename(gone)
                shutil.rmtree(gone, ignore_errors=True)
                total -= size
        self._collect_locks()

    def _collect_locks(self) -> None:
        """Removes the oldest locks without a layer; while there is one, a layer that is built again has the same files."""
        unused = [path for path in self._settings.folder.glob("*.json") if not path.with_suffix("").is_dir()]
        unused.sort(key=lambda path: path.stat().st_mtime)
        for path in unused[: max(0, len(unused) - LOCKS_MAX)]:
            if path.stem not in self._held:
                path.unlink(missing_ok=True)

    def _lock_path(self, name: str) -> Path:
        return self._settings.folder / f"{name}.json"

    def _read_lock(self, name: str) -> LayerLock | None:
        try:
            return msgspec.json.decode(self._lock_path(name).read_bytes(), type=LayerLock)
        except (FileNotFoundError, msgspec.MsgspecError):
            return None


def _installed(entry: Any) -> LayerFile:
    hashes, metadata = entry["download_info"]["archive_info"]["hashes"], entry["metadata"]
    return LayerFile(name=metadata["name"], version=metadata["version"], sha256=hashes["sha256"])


def _why(result: JobResult) -> str:
    if result.exit_code == NO_PIP_STATUS:
        return "this Python has no pip; install ensurepip (in Debian: python3-venv)"
    if result.timed_out:
        return f"it took more than {BUILD_LIMITS.wall_ms // 1000} s"
    words = result.stderr.decode(errors="replace").strip()[-_WORDS_MAX:]
    return words or f"pip ended with {result.exit_code or result.signal}"
