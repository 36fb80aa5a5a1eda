"""History — runs one seed from its beginning to the checks, and says how it went."""

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.simulation.checks import check
from tests.simulation.cluster import ClusterWorld
from tests.simulation.loop import garbage_on_demand, run_virtual
from tests.simulation.world import Setup, World

BUGS = frozenset(
    {"turn_crashed", "tool_crashed", "commit_crashed", "telling_crashed", "command_crashed", "turn_end_not_told"}
    | {"journal_entry_unreadable"}
)
"""What the server logs when something happened that must not."""


class Broken(AssertionError):
    """An invariant does not hold."""


@dataclass(frozen=True, slots=True)
class Report:
    """What happened in one history."""

    digest: str
    counts: Counter[str]
    virtual_seconds: float
    cpu_seconds: float


class _Listener(logging.Handler):
    """Turns what the server logs about its own bugs into complaints."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() in BUGS:
            detail = logging.Formatter().formatException(record.exc_info) if record.exc_info else ""
            self._world.object(f"the server logged {record.getMessage()} {detail}")


@contextmanager
def _listening(world: World) -> Iterator[None]:
    logger, listener = logging.getLogger("agentvm"), _Listener(world)
    before = logger.level, logger.propagate
    logger.addHandler(listener)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.level, logger.propagate = before


def run_history(seed: int, setup: Setup | None = None) -> Report:
    """Raises `Broken` with the seed and how to see it again."""
    with garbage_on_demand():
        return _run(seed, setup or Setup())


def _run(seed: int, setup: Setup) -> Report:
    began = time.process_time()
    world = World(seed, setup) if setup.nodes == 1 else ClusterWorld(seed, setup)

    async def main() -> None:
        await world.run()
        await check(world)

    try:
        with _listening(world):
            _, seconds = run_virtual(main())
    except (AssertionError, KeyError, ExceptionGroup, TimeoutError) as problem:
        nodes = "" if setup.nodes == 1 else f" --nodes {setup.nodes}{' --bus' if setup.bus else ''}"
        length = "" if setup.length == 1 else f" --length {setup.length:g}"
        again = f"python -m tests.simulation --seed {seed}{nodes}{length} --trace"
        raise Broken(f"seed {seed}: {problem!r}\nTo see it again: {again}") from problem
    finally:
        world.disk.close()
    world.counts["turns"] += world.tap.accepted
    world.counts["commits"] += world.disk.commits
    world.counts["failed commits"] += world.disk.failed
    world.counts["model calls"] += len(world.provider.calls)
    world.counts["tool runs"] += sum(world.provider.runs.values())
    world.counts["connections"] += sum(device.connections for device in world.devices)
    world.counts.update(world.provider.faults)
    return Report(world.digest, world.counts, seconds, time.process_time() - began)
