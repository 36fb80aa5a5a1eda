"""Report — runs every benchmark in its quick form and writes the numbers into docs/benchmarks.md.

    python -m bench.report [--only history disk] [--output docs/benchmarks.md]

The page keeps its text; what stands between the two marks is replaced. A benchmark that fails is named with its last line, and
the others run all the same.
"""

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- numbers: written by `python -m bench.report` -->", "<!-- end of numbers -->"
TIMEOUT_SECONDS = 900

QUICK: dict[str, tuple[str, ...]] = {
    "history": (),
    "turns": ("--clients", "20", "--turns", "10", "--rounds", "1"),
    "start": ("--rounds", "3"),
    "recovery": ("--turns", "200", "1000"),
    "replay": ("--clients", "1000", "--sessions", "20"),
    "stop": ("--turns", "50", "--stops", "20"),
    "density": ("--users", "1000", "--containers", "10000"),
    "disk": ("--turns", "200"),
    "commits": (),
    "erasing": ("--messages", "5000"),
    "backup": ("--megabytes", "64", "--seconds", "2"),
    "metering": ("--turns", "100"),
    "observe": ("--turns", "100"),
}
"""Arguments of the quick form of each benchmark, in the order of the page."""


def run(name: str) -> str:
    """Returns what the benchmark printed, as a section of the page."""
    command = [sys.executable, "-m", f"bench.{name}", *QUICK[name]]
    started, load = time.monotonic(), os.getloadavg()[0]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=PAGE.parent.parent, check=False
        )
        failed, output, problem = done.returncode != 0, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        failed, output, problem = True, "", f"no result within {TIMEOUT_SECONDS} s"
    seconds = time.monotonic() - started
    if failed:
        output = f"{output}failed: {problem.strip().splitlines()[-1] if problem.strip() else 'without a word'}\n"
    title = f"`bench.{name} {' '.join(QUICK[name])}".rstrip() + "`"
    return f"{title} · {seconds:.0f} s, load {load:.1f} before\n\n```text\n{output.strip()}\n```\n"


def machine() -> str:
    """Names the machine: the processor, its CPUs, the memory, and the versions that matter."""
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = found[1] if found else platform.machine()
    return f"{processor}, {os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def replace_numbers(page: str, numbers: str) -> str:
    """Returns the page with these numbers between its marks. `ValueError` without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{numbers.strip()}\n\n{END}{after}"


def main(names: list[str], output: Path) -> None:
    page = output.read_text()
    sections = [f"Machine: {machine()}. Date: {time.strftime('%Y-%m-%d', time.gmtime())}.\n"]
    for name in names:
        print(f"bench.{name} …", flush=True)
        sections.append(run(name))
    output.write_text(replace_numbers(page, "\n".join(sections)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(QUICK), default=list(QUICK))
    parser.add_argument("--output", type=Path, default=PAGE)
    options = parser.parse_args()
    main(options.only, options.output)
