from contextlib import closing

import apsw
import pytest

from agentvm.storage.engines.sqlite.connection import SqliteConnection
from agentvm.storage.sql import dialect


def fetch(sql: str, *args: object) -> object:
    with closing(apsw.Connection(":memory:")) as raw:
        return SqliteConnection(raw).fetch(sql, args)[0][0]


@pytest.mark.parametrize(("one", "other", "greater", "lesser"), [(1, 2, 2, 1), (2, 1, 2, 1), (3, 3, 3, 3), (None, 4, 4, 4)])
def test_of_two_values_the_greater_and_the_lesser(one: object, other: object, greater: object, lesser: object) -> None:
    assert fetch(f"SELECT {dialect.greater('?1', '?2')}", one, other) == greater
    assert fetch(f"SELECT {dialect.lesser('?1', '?2')}", one, other) == lesser


def test_what_is_null_stays_null_as_the_other_value() -> None:
    assert fetch(f"SELECT {dialect.greater('?1', '?2')}", 7, None) is None


def test_a_list_is_one_parameter() -> None:
    assert fetch(f"SELECT count(*) FROM ({dialect.items_of('?')}) AS items", '["a", "b"]') == 2


def test_rows_become_one_value() -> None:
    assert fetch(f"SELECT {dialect.rows_as_json('x, 1')} FROM (SELECT 'a' AS x) AS one") == '[["a",1]]'


def test_a_text_is_found_whatever_its_case() -> None:
    assert fetch(f"SELECT {dialect.contains_folded('?1', '?2')}", "ÄPFEL und Birnen", "äpfel") == 1


@pytest.mark.parametrize(
    ("part", "shown"), [(dialect.HOUR, "2026-11-16T05:00Z"), (dialect.DAY, "2026-11-16"), (dialect.MONTH, "2026-11")]
)
def test_times_are_grouped_in_utc(part: str, shown: str) -> None:
    assert fetch(f"SELECT {part} FROM (SELECT 1794805200000 AS at) AS entry") == shown
