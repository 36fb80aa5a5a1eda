"""Runs histories from the command line: `python -m tests.simulation --help`."""

import argparse
import sys
import time
from collections import Counter

from tests.simulation.history import Broken, run_history
from tests.simulation.world import Setup

SHOWN = (
    "turns",
    "resumed",
    "rewound",
    "model calls",
    "tool runs",
    "events",
    "frames",
    "connections",
    "commits",
    "failed commits",
    "crashes",
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulates the server under random faults.")
    parser.add_argument("--seeds", type=int, default=100, help="how many histories")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--trace", action="store_true", help="show what happens in it")
    parser.add_argument("--nodes", type=int, default=1, help="how many servers share the database; 3 for a cluster")
    parser.add_argument("--bus", action="store_true", help="the servers also have a bus, which may lose anything")
    parser.add_argument("--length", type=float, default=1.0, help="how much happens in each; 0.3 for a third")
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first, chosen.first + chosen.seeds) if chosen.seed is None else (chosen.seed,)
    setup = Setup(trace=say if chosen.trace else None, nodes=chosen.nodes, bus=chosen.bus, length=chosen.length)
    counts: Counter[str] = Counter()
    broken, virtual, began, cpu = 0, 0.0, time.monotonic(), time.process_time()
    for seed in seeds:
        try:
            report = run_history(seed, setup)
        except Broken as problem:
            broken += 1
            say(f"BROKEN {problem}")
            continue
        counts.update(report.counts)
        if chosen.seed is not None:
            say(f"digest: {report.digest}")
        virtual += report.virtual_seconds
    cpu = time.process_time() - cpu
    say(f"{len(seeds)} histories, {broken} broken; {counts['turns'] / cpu:.0f} turns per CPU second")
    say(f"time: {virtual:.0f} s virtual, {time.monotonic() - began:.1f} s here, {cpu:.1f} s of CPU")
    say(", ".join(f"{counts[name]} {name}" for name in SHOWN))
    say("what went wrong: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if name not in SHOWN))
    return 1 if broken else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
