"""A key that was revoked on another node is cut off here."""

from typing import cast

from agentvm.cluster.membership import Membership
from agentvm.cluster.rights import CHECKED_MAX, RightsWatch
from agentvm.model.ids import KeyId, TenantId, UserId
from agentvm.model.principal import Principal
from agentvm.tenants.authentication import Authentication, Named, Why

ACME = TenantId("acme")


def principal(key: str) -> Principal:
    return Principal(tenant_id=ACME, key_id=KeyId(key))


class FakeAccess:
    """A database in which some keys are revoked."""

    def __init__(self, *revoked: str) -> None:
        self.revoked = revoked
        self.asked: list[str] = []
        self.ended: list[Named] = []

    async def recall(self, tenant_id: TenantId, user_id: UserId | None, key_id: KeyId | None) -> Principal | None:
        self.asked.append(str(key_id))
        return None if key_id in self.revoked else principal(str(key_id))

    def end(self, tenant_id: TenantId, named: Named, why: Why = "revoked") -> None:
        self.ended.append(named)


def watch(access: FakeAccess, connected: list[Principal]) -> RightsWatch:
    return RightsWatch(cast(Membership, None), cast(Authentication, access), lambda: connected)


async def test_the_rights_of_a_revoked_key_end_and_no_others() -> None:
    access = FakeAccess("k1")
    await watch(access, [principal("k1"), principal("k2"), principal("k1")]).look()
    assert access.asked == ["k1", "k2"]
    (named,) = access.ended
    assert (named(principal("k1")), named(principal("k2"))) == (True, False)


async def test_many_are_looked_at_in_turn() -> None:
    access = FakeAccess()
    watching = watch(access, [principal(f"k{number}") for number in range(CHECKED_MAX + 1)])
    await watching.look()
    assert len(access.asked) == CHECKED_MAX
    await watching.look()
    assert access.asked[-1] == f"k{CHECKED_MAX}"
    await watching.look()
    assert access.asked[-1] == f"k{CHECKED_MAX - 1}"
