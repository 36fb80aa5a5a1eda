"""Collector — the settings of Python's garbage collector for a process that only serves.

Nearly everything a turn makes is freed by its reference count. The collector's defaults look through young objects every 700
allocations, which takes a sixth of the CPU of a short turn (`bench/turns.py`) and finds next to nothing.
"""

import gc

YOUNG_MAX = 10_000
"""Allocations minus deallocations that trigger a collection of young objects."""
MIDDLE_MAX = 20
OLD_MAX = 20


def relax_collector() -> None:
    """Makes collections rare. To be called before a server is opened: thousands of turns that continue would be looked through
    again and again, which takes a third of the CPU of such a start (`bench/recovery.py`)."""
    gc.set_threshold(YOUNG_MAX, MIDDLE_MAX, OLD_MAX)


def freeze_loaded() -> None:
    """Exempts all objects that exist from collection. To be called once, when the server has started."""
    gc.collect()
    gc.freeze()
