from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentvm.model.ids import TenantId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.observability.log_entry import LEVELS, LogEntry
from agentvm.observability.log_filter import EVERY, LogFilter, log_scope

NAMES = st.sampled_from(["a", "b", "Straße"])
MAYBE = st.none() | NAMES
ENTRIES = st.builds(
    LogEntry,
    number=st.integers(1, 100),
    at=st.integers(0, 10),
    level=st.sampled_from(LEVELS),
    event=NAMES,
    logger=st.just("agentvm.x"),
    request_id=MAYBE,
    tenant_id=MAYBE,
    container_id=MAYBE,
    session_id=MAYBE,
    turn_id=MAYBE,
    facts=st.dictionaries(NAMES, NAMES | st.integers(0, 20)),
)
FILTERS = st.builds(
    LogFilter,
    level=st.none() | st.sampled_from(LEVELS),
    since=st.none() | st.integers(0, 10),
    until=st.none() | st.integers(0, 10),
    request_id=MAYBE,
    turn_id=MAYBE,
    session_id=MAYBE,
    container_id=MAYBE,
    event=MAYBE,
    text=st.none() | st.sampled_from(["A", "STRASSE", "x", "zz", "1"]),
)


def naive(wanted: LogFilter, entry: LogEntry) -> bool:
    """The same, as one would write it down."""
    for name in ("request_id", "turn_id", "session_id", "container_id", "event"):
        if getattr(wanted, name) is not None and getattr(wanted, name) != getattr(entry, name):
            return False
    if wanted.level is not None and entry.level not in LEVELS[LEVELS.index(wanted.level) :]:
        return False
    if (wanted.since is not None and entry.at < wanted.since) or (wanted.until is not None and entry.at >= wanted.until):
        return False
    ids = [entry.request_id, entry.tenant_id, entry.container_id, entry.session_id, entry.turn_id]
    words = [entry.event, entry.logger, *ids, *entry.facts, *entry.facts.values()]
    return wanted.text is None or any(wanted.text.casefold() in str(word).casefold() for word in words if word is not None)


@given(FILTERS, ENTRIES)
def test_a_filter_lets_through_what_one_would_pick_by_hand(wanted: LogFilter, entry: LogEntry) -> None:
    assert wanted.matches(entry) == naive(wanted, entry)
    assert EVERY.matches(entry)


def entry(**about: Any) -> LogEntry:
    return LogEntry(number=1, at=1, level="info", event="e", logger="l", **about)


@pytest.mark.parametrize(
    ("principal", "named", "seen"),
    [
        ({"permissions": EVERYTHING}, None, ["", "a", "a/c1", "b/c1"]),
        ({"permissions": EVERYTHING}, "b", ["b/c1"]),
        ({"permissions": frozenset({"logs:read"})}, None, ["a", "a/c1"]),
        ({"permissions": frozenset({"logs:read"}), "containers": ("c*",)}, None, ["a/c1"]),
        ({"permissions": frozenset({"logs:read"}), "containers": ("d",)}, None, []),
        ({"permissions": EVERYTHING, "containers": ("c1",)}, None, ["a/c1", "b/c1"]),
    ],
)
def test_everybody_sees_their_own_and_the_operator_all(principal: dict[str, Any], named: str | None, seen: list[str]) -> None:
    scope = log_scope(Principal(tenant_id=TenantId("a"), **principal), None if named is None else TenantId(named))
    all_of_them = {
        "": entry(),
        "a": entry(tenant_id="a"),
        "a/c1": entry(tenant_id="a", container_id="c1"),
        "b/c1": entry(tenant_id="b", container_id="c1"),
    }
    assert [name for name, one in all_of_them.items() if scope.sees(one)] == seen
