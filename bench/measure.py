"""Measuring — a child server's CPU and memory from /proc, percentiles, and a table. Linux only."""

import os
import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A server in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self._process = process
        self.port = port

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far, all threads."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def rss(self) -> int:
        """Bytes of resident memory."""
        return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_of_family(pid: int) -> float:
    """Seconds of CPU of a process and its children so far, also of those that have ended."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if path.parent.name == str(pid):
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS


@contextmanager
def running(
    kind: str,
    pace: float = 0.0,
    *,
    deltas: int | None = None,
    data_dir: Path | None = None,
    provider: str | None = None,
    database: str | None = None,
    tools: bool = False,
) -> Iterator[Server]:
    """`bench.servers KIND`, killed when the block is left."""
    command = [sys.executable, "-m", "bench.servers", kind, "--pace", str(pace)]
    command += [] if deltas is None else ["--deltas", str(deltas)]
    command += [] if data_dir is None else ["--data-dir", str(data_dir)]
    command += [] if provider is None else ["--provider", provider]
    command += [] if database is None else ["--database", database]
    command += ["--tools"] if tools else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent) as process:
        try:
            if process.stdout is None or not (line := process.stdout.readline()):
                raise SystemExit(f"the {kind} server did not start")
            yield Server(process, int(line))
        finally:
            process.kill()


def wait_ready(server: Server) -> None:
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/ready", timeout=60):
                return
        except urllib.error.URLError:
            time.sleep(0.005)


def raise_file_limit() -> int:
    """Every socket is a file; how many there may be."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
