import pytest

from agentvm.model.account import EACH_USER, METRICS, Quota
from agentvm.model.ids import UserId
from agentvm.tenants.quota_limits import QuotaSource, limits_of_tenant, limits_of_user, source_of

METRIC = "tokens_per_day"
ALICE = UserId("usr_alice")


def limits(*quotas: Quota) -> dict[tuple[str, UserId | None], Quota]:
    return {(quota.metric, quota.user_id): quota for quota in quotas}


def test_a_tenant_has_one_row_for_each_metric() -> None:
    rows = limits_of_tenant(limits(Quota(metric=METRIC, hard=5), Quota(metric=METRIC, hard=1, user_id=ALICE)))
    assert [row.metric for row in rows] == list(METRICS)
    assert [row for row in rows if row.hard is not None] == [Quota(metric=METRIC, hard=5)]


def test_a_users_own_limit_replaces_that_of_each_user() -> None:
    each, own = Quota(metric=METRIC, hard=5, user_id=EACH_USER), Quota(metric=METRIC, hard=1, user_id=ALICE)
    assert limits_of_user(limits(each, own), ALICE) == [own]
    assert limits_of_user(limits(each), ALICE) == [Quota(metric=METRIC, hard=5, user_id=ALICE)]
    assert limits_of_user({}, ALICE) == []


@pytest.mark.parametrize(
    ("user_id", "explicit", "source"),
    [
        (None, [None], "tenant"),
        (EACH_USER, [EACH_USER], "eachUser"),
        (ALICE, [ALICE, EACH_USER], "user"),
        (ALICE, [EACH_USER], "eachUser"),
        (ALICE, [], "plan"),
        (None, [], "plan"),
    ],
)
def test_a_limit_names_its_source(user_id: UserId | None, explicit: list[UserId | None], source: QuotaSource) -> None:
    stored = limits(*(Quota(metric=METRIC, hard=1, user_id=one) for one in explicit))
    assert source_of(Quota(metric=METRIC, hard=1, user_id=user_id), stored, user_id) == source
    assert source_of(Quota(metric=METRIC, user_id=user_id), stored, user_id) is None
