import resource

from agentvm.server.descriptors import Silent, open_files_limit, raise_open_files_limit


def test_the_soft_limit_becomes_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        assert open_files_limit() == min(soft, 512)
        raise_open_files_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_connection_that_was_silent_longest_makes_way() -> None:
    silent, aborted = Silent(8), list[int]()
    for number in range(5):
        silent.enter(number, "203.0.113.5", lambda number=number: aborted.append(number))  # type: ignore[misc]
    assert aborted == [0], "half of all may come from one address"
    for number in range(5, 8):
        silent.enter(number, f"10.0.0.{number}", lambda number=number: aborted.append(number))  # type: ignore[misc]
    assert aborted == [0, 1], "three quarters of all may be silent"
    assert len(silent) == 6


def test_a_connection_that_has_spoken_is_not_counted() -> None:
    silent = Silent(8)
    for number in range(20):
        silent.enter(number, "a", lambda: None)
        silent.leave(number)
        silent.leave(number)
    assert len(silent) == 0
