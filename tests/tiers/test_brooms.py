import os
import select
from pathlib import Path

from agentvm.tiers.brooms import Brooms


def test_a_broom_sweeps_beside_and_tells_when_it_is_done(tmp_path: Path) -> None:
    brooms, ended = Brooms(), list[str]()
    (tmp_path / "dust").touch()
    watch = brooms.start((tmp_path / "dust").unlink, lambda: ended.append("done"))
    assert watch is not None
    assert (watch in brooms, len(brooms.processes), ended) == (True, 1, [])
    assert select.select([watch], [], [], 60)[0] == [watch]
    brooms.bury(watch)
    assert (watch in brooms, brooms.processes, ended) == (False, set(), ["done"])
    assert not (tmp_path / "dust").exists()


def test_a_broom_that_fails_ends_all_the_same_and_those_at_work_end_with_the_launcher() -> None:
    brooms, ended = Brooms(), list[str]()

    def fail() -> None:
        raise ValueError

    watch = brooms.start(fail, lambda: ended.append("failed"))
    assert watch is not None
    select.select([watch], [], [], 60)
    brooms.bury(watch)
    brooms.start(lambda: select.select([], [], []), lambda: ended.append("never"))
    (process,) = brooms.processes
    brooms.close()
    assert (ended, os.path.exists(f"/proc/{process}")) == (["failed"], False)
