from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.account import METRICS, Quota
from agentvm.model.ids import UserId
from agentvm.tenants.book import Counter, QuotaBook, QuotaHold, window_of

ALICE = UserId("alice")


@given(st.sampled_from(sorted({window for window in METRICS.values() if window})), st.integers(0, 4 * 10**12))
def test_a_moment_is_in_its_window_and_the_next_begins_where_it_ends(window: str, now: int) -> None:
    begins, ends = window_of(window, now)  # type: ignore[arg-type]  # sampled from the windows
    assert ends is not None
    assert begins <= now < ends
    assert window_of(window, ends)[0] == ends  # type: ignore[arg-type]
    assert window_of(window, ends - 1)[0] == begins  # type: ignore[arg-type]


def test_a_new_limit_counts_what_is_set_aside_and_settled_by_whom_it_is_for() -> None:
    book = QuotaBook()
    hold = QuotaHold(book, lambda: 5, ALICE, 30, 0, [])
    hold.take()
    book.settle(ALICE, 7, 0, 5)
    book.settle(None, 100, 0, 5)
    own, whole = (Counter(Quota(metric="tokens_per_day", hard=1, user_id=user_id), used=1) for user_id in (ALICE, None))
    for counter in (own, whole):
        book.add(counter)
    assert [(counter.used, counter.held) for counter in (own, whole)] == [(8, 30), (108, 30)]
    hold.settle(2, 0)
    assert [(counter.used, counter.held) for counter in (own, whole)] == [(10, 0), (110, 0)]


def test_a_window_that_ended_while_a_limit_was_read_is_not_counted() -> None:
    book, tomorrow = QuotaBook(), 86_400_000
    book.settle(None, 7, 0, tomorrow + 1)
    counter = Counter(Quota(metric="tokens_per_day", hard=1), begins=0, used=50)
    book.add(counter)
    assert (counter.begins, counter.used) == (tomorrow, 7)
