"""Simulation — the whole server in one thread, on virtual time, driven by one seed.

The real runtime, journal, store, commands and socket handler run on an event loop whose clock jumps from timer to timer.
Around them everything is simulated: the disk, the network, the model, the tools, the people and the wall clock. All of it draws
from one random generator, so a seed is a history: the same one, however often it is run.

    python -m tests.simulation --seeds 1000       many histories
    python -m tests.simulation --seed 17 --trace  one of them, step by step
    python -m tests.simulation --nodes 3          three nodes over one database
"""
