import gc

import pytest

from agentvm.errors import QuotaExceeded
from agentvm.model.account import Quota
from agentvm.tenants.book import Counter
from agentvm.tenants.export_hold import SLACK_BYTES, ExportHold

NOON = 1_700_000_000_000
DAY = 86_400_000


def counter(hard: int | None = 100_000) -> Counter:
    return Counter(Quota(metric="export_bytes_per_day", hard=hard, soft=None if hard else 1))


def test_what_is_set_aside_is_used_by_nobody_else() -> None:
    one = counter()
    first = ExportHold(lambda: NOON, lambda: [one], 60_000)
    with pytest.raises(QuotaExceeded):
        ExportHold(lambda: NOON, lambda: [one], 60_000)
    first.spend(10_000)
    assert one.used + one.held >= 60_000
    first.release()
    first.release()
    assert (one.used, one.held, first.sent) == (10_000, 0, 10_000)
    ExportHold(lambda: NOON, lambda: [one], 60_000).release()


def test_an_export_that_turns_out_larger_takes_what_is_left_and_is_cut_off_where_there_is_no_more() -> None:
    one = counter()
    hold = ExportHold(lambda: NOON, lambda: [one], 1_000)
    for _ in range(99):
        hold.spend(1_000)
    with pytest.raises(QuotaExceeded):
        hold.spend(1_001)
    assert (one.used, hold.sent) == (99_000, 99_000)
    hold.spend(1_000)
    hold.release()
    assert (one.used, one.held) == (100_000, 0)


def test_a_little_more_than_was_measured_is_set_aside_as_far_as_there_is() -> None:
    wide, narrow = counter(), counter(1_000)
    hold = ExportHold(lambda: NOON, lambda: [wide], 1_000)
    assert wide.held == 1_000 + 250 + SLACK_BYTES
    tight = ExportHold(lambda: NOON, lambda: [narrow], 900)
    assert narrow.held == 1_000
    for one in (hold, tight):
        one.release()
    assert wide.held == narrow.held == 0


def test_nothing_is_set_aside_if_one_of_two_limits_refuses() -> None:
    wide, narrow = counter(), counter(10)
    with pytest.raises(QuotaExceeded):
        ExportHold(lambda: NOON, lambda: [wide, narrow], 1_000)
    assert wide.held == narrow.held == 0


def test_without_a_hard_limit_everything_leaves_and_is_counted() -> None:
    one = counter(None)
    hold = ExportHold(lambda: NOON, lambda: [one], 10)
    hold.spend(10**9)
    hold.release()
    assert (one.used, one.held) == (10**9, 0)
    ExportHold(lambda: NOON, list, 10).spend(5)


def test_the_next_day_begins_with_nothing_used_and_what_is_set_aside() -> None:
    now, one = [NOON], counter()
    hold = ExportHold(lambda: now[0], lambda: [one], 50_000)
    hold.spend(40_000)
    now[0] += DAY
    hold.spend(10_000)
    assert one.used == 10_000
    hold.release()
    assert one.held == 0


def test_an_answer_that_nobody_began_to_read_holds_nothing() -> None:
    one = counter()
    hold = ExportHold(lambda: NOON, lambda: [one], 10)
    assert one.held > 0
    del hold
    gc.collect()
    assert one.held == 0
