import msgspec
import pytest

from agentvm.errors import InvalidInput
from agentvm.model.account import EACH_USER, METRICS, OF_USERS, Allowance, Plan, Quota
from agentvm.model.ids import UserId
from agentvm.tenants.plans import BUILT_IN, Plans, effective


def test_the_plans_that_there_are_limit_what_can_be_limited() -> None:
    for plan in BUILT_IN.values():
        assert {quota.metric for quota in plan.limits.quotas} <= set(METRICS)
        assert {quota.metric for quota in plan.users.quotas} <= set(OF_USERS)
    assert BUILT_IN["unlimited"] == Plan()
    free, default = ({quota.metric: quota.hard or 0 for quota in BUILT_IN[name].limits.quotas} for name in ("free", "default"))
    assert all(free[metric] < hard for metric, hard in default.items())


def test_an_operators_plan_goes_before_the_one_of_its_name() -> None:
    own = Plan(limits=Allowance(quotas=(Quota(metric="containers", hard=7),)))
    plans = Plans({"team": own})
    assert (plans.find("team"), plans.find("pro"), plans.find(None)) == (own, BUILT_IN["pro"], BUILT_IN["default"])
    # A tenant is not without limits because its plan is gone.
    assert plans.find("gone") == BUILT_IN["default"]
    assert plans.replace({"default": own})
    assert not plans.replace({"default": own})
    assert plans.find("gone") == plans.find(None) == own
    plans.check(None)
    plans.check("free")
    with pytest.raises(InvalidInput, match="default, free, pro, unlimited, or set"):
        plans.check("team")


def test_what_was_set_goes_before_the_plan() -> None:
    of_plan = Quota(metric="connections", hard=5)
    plan = Plan(limits=Allowance(quotas=(of_plan, Quota(metric="containers", hard=1))), users=Allowance(quotas=(of_plan,)))
    own = (Quota(metric="containers", hard=9), Quota(metric="connections", hard=2, user_id=UserId("alice")))
    each = msgspec.structs.replace(of_plan, user_id=EACH_USER)
    assert set(effective(plan, own)) == {of_plan, each, *own}
    assert set(effective(plan, (msgspec.structs.replace(each, hard=50),))) >= {msgspec.structs.replace(each, hard=50)}
