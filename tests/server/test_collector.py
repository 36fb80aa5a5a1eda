import gc
from collections.abc import Iterator

import pytest

from agentvm.server import collector
from agentvm.server.collector import freeze_loaded, relax_collector


@pytest.fixture(autouse=True)
def untouched() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_what_is_there_at_the_start_is_never_looked_through_again() -> None:
    kept = [[number] for number in range(1_000)]
    relax_collector()
    freeze_loaded()
    assert gc.get_freeze_count() >= len(kept)
    assert gc.get_threshold() == (collector.YOUNG_MAX, collector.MIDDLE_MAX, collector.OLD_MAX)


def test_cycles_that_are_made_later_are_still_freed() -> None:
    class Node:
        freed = 0

        def __init__(self) -> None:
            self.self = self

        def __del__(self) -> None:
            Node.freed += 1

    relax_collector()
    freeze_loaded()
    for _ in range(2 * collector.YOUNG_MAX):
        Node()
    assert Node.freed >= collector.YOUNG_MAX // 2
