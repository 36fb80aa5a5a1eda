"""One tenant fills neither the log of the others nor that of the server, and it can be seen how much was left out."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.typing import EventDict

from agentvm.log import gates, get_logger, sinks
from agentvm.observability.log_limit import DONE_RATE, REFUSED_RATE, SUMMARY_MS, SUPPRESSED, LogLimit, LogRate

logger = get_logger("agentvm.tests.limit")


class Hours:
    def __init__(self) -> None:
        self.now = 1_000_000

    def __call__(self) -> int:
        return self.now


@contextmanager
def limited(limit: LogLimit) -> Iterator[list[EventDict]]:
    kept: list[EventDict] = []

    def sink(name: str, method: str, facts: EventDict) -> None:
        kept.append(facts)

    gates.append(limit.admit)
    sinks.append(sink)
    try:
        yield kept
    finally:
        gates.remove(limit.admit)
        sinks.remove(sink)


def refuse(tenant_id: str | None, times: int = 1, event: str = "command_refused") -> None:
    for _ in range(times):
        logger.warning(event, code="not_found", tenant_id=tenant_id)


def count(kept: list[EventDict], tenant_id: str | None, event: str = "command_refused") -> int:
    return sum(facts["event"] == event and facts.get("tenant_id") == tenant_id for facts in kept)


def test_one_tenants_flood_is_cut_off_and_anothers_entries_are_kept() -> None:
    with limited(LogLimit(Hours())) as kept:
        refuse("a", 10_000)
        refuse("b")
        refuse(None)
        refuse("a", event="other_event")
    assert [count(kept, "a"), count(kept, "b"), count(kept, None)] == [REFUSED_RATE.burst, 1, 1]
    assert count(kept, "a", "other_event") == 1


def test_what_is_left_out_is_not_shown_either(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), limited(LogLimit(Hours(), refused=LogRate(2, 0.0))):
        refuse("a", 10)
    assert len(caplog.records) == 2


def test_entries_about_work_that_was_done_are_many() -> None:
    with limited(LogLimit(Hours())) as kept:
        for _ in range(DONE_RATE.burst + 100):
            logger.warning("turn_ended", tenant_id="a")
    assert count(kept, "a", "turn_ended") == DONE_RATE.burst


def test_tokens_come_back_with_time_and_what_was_left_out_is_told_once() -> None:
    clock = Hours()
    with limited(LogLimit(clock, refused=LogRate(5, 1.0))) as kept:
        refuse("a", 105)
        clock.now += 2_000
        refuse("a", 3)
        assert count(kept, "a") == 7
        clock.now += SUMMARY_MS
        # The next entry of anybody brings it up.
        refuse("b")
        summaries = [facts for facts in kept if facts["event"] == SUPPRESSED]
        assert [(each["tenant_id"], each["of"], each["count"], each["since"]) for each in summaries] == [
            ("a", "command_refused", 101, 1_000_000)
        ]
        clock.now += SUMMARY_MS
        refuse("b")
    assert count(kept, "a", SUPPRESSED) == 1


def test_a_clock_that_is_set_back_neither_raises_nor_keeps_a_summary_for_ever() -> None:
    clock = Hours()
    limit = LogLimit(clock, refused=LogRate(1, 1.0))
    with limited(limit) as kept:
        refuse("a", 5)
        clock.now -= 500_000
        refuse("b")
        assert count(kept, "a", SUPPRESSED) == 1


def test_what_was_left_out_is_told_at_the_end() -> None:
    limit = LogLimit(Hours(), refused=LogRate(1, 0.0))
    with limited(limit) as kept:
        refuse("a", 5)
        limit.flush()
        limit.flush()
    assert [facts["count"] for facts in kept if facts["event"] == SUPPRESSED] == [4]
