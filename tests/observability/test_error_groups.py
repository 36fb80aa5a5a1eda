from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentvm.observability import error_groups
from agentvm.observability.error_groups import group
from agentvm.observability.log_entry import LEVELS, LogEntry, Raised

KINDS = st.sampled_from(["x", "y"])
ENTRIES = st.builds(
    LogEntry,
    number=st.integers(1, 1_000_000),
    at=st.integers(0, 100),
    level=st.sampled_from(LEVELS),
    event=KINDS,
    logger=KINDS,
    tenant_id=st.none() | KINDS,
    turn_id=st.none() | KINDS,
    facts=st.dictionaries(st.just("code"), KINDS),
)


def entry(level: Any = "error", **about: Any) -> LogEntry:
    return LogEntry(**{"number": 1, "at": 1, "level": level, "event": "e", "logger": "agentvm.m", **about})


@given(st.lists(ENTRIES))
def test_every_error_is_counted_once_in_the_group_it_belongs_to(entries: list[LogEntry]) -> None:
    groups = group(entries)
    errors = [one for one in entries if one.level in ("error", "critical") or (one.level == "warning" and one.code)]
    assert sum(one.count for one in groups) == len(errors)
    for one in groups:
        mine = [
            error
            for error in errors
            if (error.tenant_id, error.code or error.level, error.event, error.logger)
            == (one.tenant_id, one.code, one.event, one.where)
        ]
        assert (one.count, one.last_at, one.first_at) == (len(mine), mine[0].at, mine[-1].at)
        assert (one.last_number, one.last_turn_id) == (mine[0].number, mine[0].turn_id)


def test_a_bug_is_known_models_its_type_and_its_place() -> None:
    raised = Raised(kind="KeyError", places=("a.py:1 f", "runtime/agent.py:9 _run"))
    (one,) = group([entry(raised=raised)])
    assert (one.code, one.where) == ("KeyError", "runtime/agent.py:9 _run")
    (other,) = group([entry(raised=Raised(kind="ValueError"))])
    assert (other.code, other.where) == ("ValueError", "agentvm.m")


def test_groups_are_bounded_and_those_seen_last_are_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(error_groups, "GROUPS_MAX", 2)
    found = group([entry(event=event) for event in "abcab"])
    assert [(one.event, one.count) for one in found] == [("a", 2), ("b", 2)]


def test_no_error_is_passed_over_before_it_is_read() -> None:
    for level in ("warning", "error", "critical"):
        assert error_groups.may_be_error(f'{{"level":"{level}"}}'.encode())
    assert not error_groups.may_be_error(b'{"level":"info","event":"error_free"}')
