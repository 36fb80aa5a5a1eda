from agentvm.model.ids import TenantId
from agentvm.tenants.audit_refusals import REFUSED_MS, AuditRefusals

NOW = 1_000_000


def test_of_refusals_one_a_minute_is_worth_an_entry() -> None:
    refusals = AuditRefusals()
    acme, bolt = TenantId("acme"), TenantId("bolt")
    assert [refusals.enter(acme, "k", "user.create", NOW) for _ in range(3)] == [True, False, False]
    assert refusals.enter(acme, "k", "user.delete", NOW)
    assert refusals.enter(acme, "other", "user.create", NOW)
    assert refusals.enter(bolt, "k", "user.create", NOW)
    assert not refusals.enter(acme, "k", "user.create", NOW + REFUSED_MS - 1)
    assert refusals.enter(acme, "k", "user.create", NOW + REFUSED_MS)
    assert refusals.enter(acme, "k", "user.create", NOW - REFUSED_MS), "a clock that is set back hides nothing for long"


def test_the_memory_of_refusals_is_bounded() -> None:
    refusals = AuditRefusals(max_actors=2)
    for actor in "abc":
        assert refusals.enter(TenantId("acme"), actor, "user.create", NOW)
    assert [refusals.enter(TenantId("acme"), actor, "user.create", NOW) for actor in "ca"] == [False, True]
