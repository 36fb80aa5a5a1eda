"""Start — `avm serve` to `/ready`, and `avm --help`, next to a bare interpreter.

python -m bench.start [--rounds 5]
"""

import argparse
import os
import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from tempfile import TemporaryDirectory

from bench.measure import table

AVM = [sys.executable, "-m", "agentvm.cli.main"]


def child_cpu(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ready() -> float:
    """Seconds from the command to the first answer of `/ready`."""
    with TemporaryDirectory() as data_dir:
        started = time.monotonic()
        command = [*AVM, "serve", "--port", "0", "--data-dir", data_dir]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                url = next(word for line in process.stdout or () for word in line.split() if word.startswith("http://"))
                while True:
                    try:
                        with urllib.request.urlopen(f"{url}/ready", timeout=1):
                            return time.monotonic() - started
                    except urllib.error.URLError:
                        time.sleep(0.01)
            finally:
                process.terminate()


def best(rounds: int, run: Callable[[], float]) -> float:
    return min(run() for _ in range(rounds)) * 1000


def main(rounds: int) -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    floor = best(rounds, lambda: child_cpu([sys.executable, "-c", "pass"]))
    helping = best(rounds, lambda: child_cpu([*AVM, "--help"]))
    rows = [
        ["", "ms", "x bare interpreter"],
        ["python -c pass (CPU)", f"{floor:.0f}", "1.0"],
        ["avm --help (CPU)", f"{helping:.0f}", f"{helping / floor:.1f}"],
    ]
    serving = best(rounds, ready)
    rows.append(["avm serve to /ready (wall)", f"{serving:.0f}", f"{serving / floor:.1f}"])
    print(table(rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    main(parser.parse_args().rounds)
