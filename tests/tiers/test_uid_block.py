import os
import subprocess
import sys

import pytest

from agentvm.tiers.uid_block import BLOCK_MAX, UidBlock, kill_all_of, owners

FIRST_MIN = 1_650_000_000
"""Uids that no launcher of another test uses."""


@pytest.fixture(autouse=True)
def root() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give uids")


def test_two_launchers_never_have_a_uid_in_common() -> None:
    one, two = (UidBlock.find(FIRST_MIN, 2 * BLOCK_MAX) for _ in range(2))
    assert len(one.all) == len(two.all) == BLOCK_MAX
    assert set(one.all).isdisjoint(two.all)
    assert UidBlock.find(FIRST_MIN, 2 * BLOCK_MAX).all == ()
    one.close()
    again = UidBlock.find(FIRST_MIN, 2 * BLOCK_MAX)
    assert again.all == one.all
    two.close()
    again.close()


def test_a_uid_rests_as_long_as_possible() -> None:
    block = UidBlock(100, 3)
    first = block.take()
    assert first == 100
    block.give_back(first)
    assert [block.take() for _ in range(4)] == [101, 102, 100, None]


def test_all_processes_of_a_uid_are_killed_and_no_others() -> None:
    uid = FIRST_MIN + 10 * BLOCK_MAX
    program = f"import os, time; os.setresuid({uid}, {uid}, {uid}); print('up', flush=True); time.sleep(1000)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert uid in owners()
        kill_all_of(uid)
        assert process.wait(timeout=60) == -9


def test_the_uid_of_root_is_refused() -> None:
    with pytest.raises(ValueError, match="root"):
        kill_all_of(0)
