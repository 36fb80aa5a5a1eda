import time

import click
import pytest

from agentvm.cli.times import duration, future, moment, past


@pytest.mark.parametrize(
    ("text", "seconds"), [("0s", 0), ("90s", 90), ("5m", 300), ("1h", 3600), (" 30D ", 2_592_000), ("2w", 1_209_600)]
)
def test_a_span_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "1.5h", "-1h", "1y", "9999999999d", "٣d"])
def test_what_is_no_span_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="12h"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-15", 1794700800000),
        ("2026-11-15T10:00", 1794736800000),
        ("2026-11-15T10:00:00Z", 1794736800000),
        ("2026-11-15T12:00+02:00", 1794736800000),
        ("1d", 86_400_000),
    ],
)
def test_a_moment_is_a_date_a_time_or_a_span_from_now(text: str, at: int) -> None:
    assert moment(text, now=0, sign=1) == at


def test_spans_go_to_the_past_or_to_the_future() -> None:
    now = time.time_ns() // 1_000_000
    assert past("1h") < now < future("1h")


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "1969-01-01", "999999999w", "2026-11-15T25:00"])
def test_what_is_no_moment_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match="2026-11-15"):
        moment(text, now=0, sign=1)
