import pytest

from agentvm.errors.archive import ArchiveTooLarge
from agentvm.sessions.bounds import NESTING_MAX, count_values


def test_values_are_counted_before_they_are_built() -> None:
    assert count_values(b"[1, 2, 3]") >= 3
    with pytest.raises(ArchiveTooLarge, match="more than 100 values"):
        count_values(b"[" + b"[]," * 100 + b"1]", 100)
    with pytest.raises(ArchiveTooLarge, match="values"):
        count_values(b'{"a":[' + b"1," * 100 + b"1]}", 100)


def test_what_people_write_is_not_counted() -> None:
    commas = b'{"text": "' + rb"a, [b], {c}: \" \\" * 1_000 + b'"}'
    assert count_values(commas, 10) <= 10
    assert count_values(rb'["\\", ",,,,,,,,,,,,", "\"", 1]', 8) <= 8


def test_nesting_has_a_bound_and_width_is_no_nesting() -> None:
    count_values(b"[" * NESTING_MAX + b"]" * NESTING_MAX)
    count_values(b"[" + b"[]," * 1_000 + b"[]]")
    with pytest.raises(ArchiveTooLarge, match="nested"):
        count_values(b'{"a":' * (NESTING_MAX + 1) + b"1" + b"}" * (NESTING_MAX + 1))


def test_what_is_no_json_harms_nobody() -> None:
    for body in (b"", b"]" * 1_000, b'"' * 1_001, b'"\\', b"\xff" * 100, b"[" * 150 + b"}" * 5_000):
        assert count_values(body, 10_000) >= 1
