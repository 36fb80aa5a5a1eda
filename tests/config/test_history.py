import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.fakes import Reversing
from tests.config.values import flat_values, keys, plainly

from agentvm.config.catalogue import MASK, Value
from agentvm.config.history import Override, between, decode, encode, replay, show_raw
from agentvm.errors import StoreFailed
from agentvm.model.ids import TenantId
from agentvm.model.secret import Secret
from agentvm.storage.settings import Change

ACME = TenantId("acme")
RAW = st.none() | st.integers(0, 3)
HISTORIES = st.lists(st.dictionaries(keys(), RAW, max_size=4), max_size=8)

BOOT = (
    "system.dataDir",
    "system.database",
    "system.serverKey",
    "cluster.enabled",
    "cluster.name",
    "cluster.nats",
    "cluster.leaseSeconds",
)


def changes(histories: list[dict[str, int | None]]) -> list[Change]:
    return [Change(revision=number, at=number, actor="a", changes=dict(one)) for number, one in enumerate(histories, 1)]


@given(HISTORIES)
def test_what_counts_follows_from_the_changes(histories: list[dict[str, int | None]]) -> None:
    naive: dict[str, int | None] = {}
    for one in histories:
        naive |= one
    state = replay(changes(histories))
    assert {key: entry.raw for key, entry in state.items()} == {key: raw for key, raw in naive.items() if raw is not None}
    for key, entry in state.items():
        assert entry.revision == max(number for number, one in enumerate(histories, 1) if key in one)


@given(HISTORIES, st.integers(0, 8))
def test_a_difference_that_is_undone_gives_what_was(histories: list[dict[str, int | None]], at: int) -> None:
    made = changes(histories)
    then, now = replay(made[:at]), replay(made)
    back = {key: pair[1] for key, pair in between(now, then).items()}
    again = replay([*made, Change(revision=len(made) + 1, at=9, actor="a", changes=back)])
    assert between(again, then) == {}
    assert between(now, now) == {}


@given(flat_values(), st.sampled_from([None, ACME]))
def test_a_value_is_stored_and_read_as_it_was(values: dict[str, Value], scope: TenantId | None) -> None:
    values = {key: value for key, value in values.items() if key not in BOOT}
    seals = Reversing()
    state = {key: Override(encode(scope, key, value, seals), 3, 7, "root") for key, value in values.items()}
    found = decode(scope, state, seals)
    assert {key: plainly(one.value) for key, one in found.items()} == {key: plainly(value) for key, value in values.items()}
    assert {(one.place, one.actor, one.at) for one in found.values()} <= {("change 3", "root", 7)}
    for key, value in values.items():
        if isinstance(value, Secret):
            assert show_raw(key, state[key].raw) == MASK


def test_what_nobody_knows_any_more_is_passed_over_and_never_shown() -> None:
    state = {key: Override("x", 1, 1, "a") for key in ("gone.setting", "limits.steps", "system.dataDir")}
    assert decode(None, state, Reversing()) == {}
    assert show_raw("gone.setting", "sk-planted") == MASK
    assert show_raw("limits.steps", "not a number") == MASK
    assert show_raw("limits.steps", None) is None
    assert show_raw("llm.baseUrl", "http://me:sk-1@h") == "http://***@h"


@pytest.mark.parametrize("raw", ["text", {}, {"sealed": 5}, {"sealed": "%%%"}])
def test_a_secret_that_is_damaged_says_so_without_a_trace(raw: object) -> None:
    with pytest.raises(StoreFailed, match="--no-overrides"):
        decode(None, {"llm.apiKey": Override(raw, 1, 1, "a")}, Reversing())


def test_nothing_is_stored_as_nothing() -> None:
    assert encode(None, "llm.model", None, Reversing()) is None


def test_an_address_that_carries_something_secret_is_sealed() -> None:
    url, seals = "http://me:sk-planted@h/v1?key=sk-planted", Reversing()
    raw = encode(None, "llm.baseUrl", url, seals)
    assert "sk-planted" not in str(raw)
    assert show_raw("llm.baseUrl", raw) == MASK
    assert decode(None, {"llm.baseUrl": Override(raw, 1, 1, "a")}, seals)["llm.baseUrl"].value == url
    assert encode(None, "llm.baseUrl", "http://h/v1", seals) == "http://h/v1"
