"""Report — runs every benchmark in its quick form and writes the numbers into docs/benchmarks.md.

    python -m bench.report [--only history disk] [--minutes 15] [--output docs/benchmarks.md]

Each section is printed and written as soon as it is measured; the page keeps its text, and the sections of benchmarks that were
not run. A benchmark that fails is named with its last line, and the others run all the same. All of them together take no
longer than `--minutes`: what is left then is not run.
"""

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- numbers: written by `python -m bench.report` -->", "<!-- end of numbers -->"
_SECTION = re.compile(r"^`bench\.(\w+).*?^```text\n.*?^```\n", re.DOTALL | re.MULTILINE)
TIMEOUT_SECONDS = 240.0
"""One benchmark takes no longer."""

QUICK: dict[str, tuple[str, ...]] = {
    "turns": ("--clients", "50", "--history", "0", "--rounds", "1"),
    "history": ("--rounds", "20"),
    "density": ("--users", "1000", "--containers", "10000"),
    "replay": ("--clients", "2000", "--sessions", "40", "--rounds", "2"),
    "streaming": (),
    "stop": ("--turns", "200", "--stops", "50"),
    "recovery": ("--turns", "200", "1000"),
    "disk": ("--turns", "200"),
    "commits": ("--messages", "4000"),
    "erasing": ("--messages", "5000"),
    "backup": ("--megabytes", "64", "--seconds", "2"),
    "metering": ("--turns", "100"),
    "observe": ("--turns", "100"),
    "tools": ("--calls", "300", "--rounds", "3"),
    "tiers": ("--jobs", "50", "--soak", "200"),
    "files": (),
    "gateways": ("--deltas", "100000"),
    "start": ("--rounds", "3"),
}
"""Arguments of the quick form of each benchmark, in the order of the page."""


def run(name: str, timeout: float) -> str:
    """Returns what the benchmark printed, as a section of the page."""
    command = [sys.executable, "-m", f"bench.{name}", *QUICK[name]]
    started, load = time.monotonic(), os.getloadavg()[0]
    # A session of its own: its servers end with it.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=PAGE.parent.parent, start_new_session=True
    ) as process:
        try:
            output, problem = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            problem = f"no result within {timeout:.0f} s"
    seconds = time.monotonic() - started
    if process.returncode:
        output = f"{output}failed: {problem.strip().splitlines()[-1] if problem.strip() else 'without a word'}\n"
    output = output.strip("\n")
    title = f"`bench.{name} {' '.join(QUICK[name])}".rstrip() + "`"
    date = time.strftime("%Y-%m-%d", time.gmtime())
    return f"{title} · {date}, {seconds:.0f} s, load {load:.1f} before\n\n```text\n{output}\n```\n"


def machine() -> str:
    """Names the machine: the processor, its CPUs, the memory, and the versions that matter."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = model[1] if model else platform.machine()
    return f"{processor}, {os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.system()}, Python {platform.python_version()}"


def replace_numbers(page: str, numbers: str) -> str:
    """Returns the page with these numbers between its marks. `ValueError` without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks the marks {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{numbers.strip()}\n\n{END}{after}"


def read_sections(page: str) -> dict[str, str]:
    """Returns the sections of the page by the name of their benchmark; those of one benchmark are joined."""
    numbers = page.partition(BEGIN)[2].partition(END)[0]
    sections: dict[str, str] = {}
    for match in _SECTION.finditer(numbers):
        sections[match[1]] = "\n".join([*([sections[match[1]]] if match[1] in sections else []), match[0]])
    return sections


def main(names: list[str], minutes: float, output: Path) -> None:
    until = time.monotonic() + minutes * 60
    for name in names:
        left = min(TIMEOUT_SECONDS, until - time.monotonic())
        if left <= 0:
            print(f"bench.{name}: not run, {minutes:g} minutes are over", flush=True)
            continue
        section = run(name, left)
        print(section, flush=True)
        page = output.read_text()
        sections = read_sections(page) | {name: section}
        # Those that are not run here keep their numbers.
        ordered = [sections[known] for known in dict.fromkeys([*QUICK, *sections]) if known in sections]
        output.write_text(replace_numbers(page, "\n".join([f"Machine: {machine()}.\n", *ordered])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(QUICK), default=list(QUICK))
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--output", type=Path, default=PAGE)
    options = parser.parse_args()
    main(options.only, options.minutes, options.output)
