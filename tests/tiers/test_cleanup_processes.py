import os
import select
from pathlib import Path

from agentvm.tiers.cleanup_processes import CleanupProcesses


def test_a_broom_sweeps_beside_and_tells_when_it_is_done(tmp_path: Path) -> None:
    cleanups, ended = CleanupProcesses(), list[str]()
    (tmp_path / "dust").touch()
    watch = cleanups.start((tmp_path / "dust").unlink, lambda: ended.append("done"))
    assert watch is not None
    assert (watch in cleanups, len(cleanups.processes), ended) == (True, 1, [])
    assert select.select([watch], [], [], 60)[0] == [watch]
    cleanups.reap(watch)
    assert (watch in cleanups, cleanups.processes, ended) == (False, set(), ["done"])
    assert not (tmp_path / "dust").exists()


def test_a_broom_that_fails_ends_all_the_same_and_those_at_work_end_with_the_launcher() -> None:
    cleanups, ended = CleanupProcesses(), list[str]()

    def fail() -> None:
        raise ValueError

    watch = cleanups.start(fail, lambda: ended.append("failed"))
    assert watch is not None
    select.select([watch], [], [], 60)
    cleanups.reap(watch)
    cleanups.start(lambda: select.select([], [], []), lambda: ended.append("never"))
    (process,) = cleanups.processes
    cleanups.close()
    assert (ended, os.path.exists(f"/proc/{process}")) == (["failed"], False)
