from agentvm.model.ids import KeyId, TenantId
from agentvm.model.principal import Principal
from agentvm.tenants.recent import RECENT_AGE_MS, Recent

NOW = 1_000_000


def principal(name: str, tenant: str = "t") -> Principal:
    return Principal(tenant_id=TenantId(tenant), key_id=KeyId(name))


def test_an_entry_is_found_for_thirty_seconds() -> None:
    recent = Recent()
    recent.put("a", b"d", principal("a"), NOW)
    found = recent.get("a", NOW + RECENT_AGE_MS - 1)
    assert found is not None
    assert (found.digest, found.principal) == (b"d", principal("a"))
    assert recent.get("a", NOW + RECENT_AGE_MS) is None
    assert RECENT_AGE_MS <= 30_000
    assert len(recent) == 0


def test_being_asked_for_does_not_make_it_younger() -> None:
    recent = Recent()
    recent.put("a", b"", principal("a"), NOW)
    assert recent.get("a", NOW + 20_000) is not None
    assert recent.get("a", NOW + 40_000) is None


def test_a_clock_that_was_set_back_keeps_nothing_alive() -> None:
    recent = Recent()
    recent.put("a", b"", principal("a"), NOW)
    assert recent.get("a", NOW - 3_600_000) is None


def test_the_one_that_was_used_least_recently_gives_way() -> None:
    recent = Recent(most=2)
    recent.put("a", b"", principal("a"), NOW)
    recent.put("b", b"", principal("b"), NOW)
    assert recent.get("a", NOW) is not None
    recent.put("c", b"", principal("c"), NOW)
    assert len(recent) == 2
    assert recent.get("b", NOW) is None
    assert recent.get("a", NOW) is not None


def test_those_who_are_named_are_forgotten_and_no_others() -> None:
    recent = Recent()
    recent.put("a", b"", principal("a", "t"), NOW)
    recent.put("b", b"", principal("b", "u"), NOW)
    recent.drop(lambda one: one.tenant_id == "t")
    assert recent.get("a", NOW) is None
    assert recent.get("b", NOW) is not None
