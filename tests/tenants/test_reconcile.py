from datetime import UTC, datetime

import pytest

from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId, TurnId
from agentvm.model.ledger import LedgerEntry
from agentvm.model.usage import Usage
from agentvm.tenants.exports import Exported
from agentvm.tenants.reconcile import ReconciledGroup, ReconcileReport, base_model, days_of, reconcile

NOON = "2026-11-15T12:00:00"


def entry(
    tokens: int = 100,
    *,
    at: str = NOON,
    model: str = "claude-sonnet-5",
    driver: str = "anthropic",
    estimated: bool = False,
    cost: int | None = 1,
) -> LedgerEntry:
    return LedgerEntry(
        key=f"{at}-{model}",
        at=int(datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() * 1000),
        tenant_id=TenantId("default"),
        container_id=ContainerId("c"),
        image_id=ImageId("i"),
        session_id=SessionId("s"),
        turn_id=TurnId("t"),
        driver=driver,
        model=model,
        usage=Usage(input_tokens=tokens, output_tokens=0, estimated=estimated),
        cost=cost,
        price=cost,
    )


def billed(tokens: int, *, day: str = "2026-11-15", model: str = "claude-sonnet-5", output: int = 0) -> Exported:
    return Exported(day=day, model=model, usage=Usage(input_tokens=tokens, output_tokens=output))


def only(report: ReconcileReport) -> ReconciledGroup:
    (group,) = report.groups
    return group


def test_the_same_on_both_sides_is_equal_however_it_was_added_up() -> None:
    group = only(reconcile([billed(150), billed(50)], [entry(100), entry(60), entry(40)]))
    assert (group.verdict, group.explained, group.reasons, group.calls) == ("equal", True, (), 3)


def test_a_dated_model_on_the_bill_is_the_one_that_was_asked_for() -> None:
    assert only(reconcile([billed(100, model="Claude-Sonnet-5-20260915")], [entry(100)])).verdict == "equal"
    assert base_model("gpt-5.4-mini-2026-03-17") == base_model("gpt-5.4-mini") == "gpt-5.4-mini"
    assert base_model("claude-sonnet-5@20260915") == "claude-sonnet-5"
    assert base_model("gpt-4-0613") == "gpt-4-0613"


def test_what_only_the_provider_knows_is_not_explained_but_said() -> None:
    group = only(reconcile([billed(150)], [entry(100)]))
    assert (group.verdict, group.explained) == ("provider has more", False)
    assert "50 tokens unexplained: calls that died before they were recorded" in group.reasons[-1]
    assert "outside AgentVM" in group.reasons[-1]


def test_estimates_explain_what_they_can_account_for_and_no_more() -> None:
    group = only(reconcile([billed(100)], [entry(100), entry(30, estimated=True)]))
    assert (group.verdict, group.explained, group.estimated_calls) == ("ledger has more", True, 1)
    assert group.reasons == ("1 call is estimated (30 tokens), because the provider did not report their usage",)
    group = only(reconcile([billed(90)], [entry(100), entry(30, estimated=True)]))
    assert not group.explained
    assert group.reasons[-1].startswith("10 tokens unexplained")


def test_an_estimate_may_be_too_low_as_well() -> None:
    group = only(reconcile([billed(150)], [entry(100), entry(30, estimated=True)]))
    assert (group.verdict, group.explained) == ("provider has more", True)


def test_a_call_at_midnight_may_be_in_the_next_day_of_the_provider() -> None:
    ours = [entry(100), entry(40, at="2026-11-15T23:58:00"), entry(70, at="2026-11-16T12:00:00")]
    report = reconcile([billed(100), billed(110, day="2026-11-16")], ours)
    first, second = report.groups
    assert (first.verdict, first.explained, first.edge_calls) == ("ledger has more", True, 1)
    assert (second.verdict, second.explained) == ("provider has more", True)
    assert "neighbouring day" in second.reasons[0]
    assert report.explained


@pytest.mark.parametrize(
    ("at", "explained"), [("23:54:59", False), ("23:55:00", True), ("00:04:59", True), ("00:05:00", False)]
)
def test_the_edge_of_a_day_is_five_minutes(at: str, explained: bool) -> None:
    assert only(reconcile([billed(100)], [entry(100), entry(40, at=f"2026-11-15T{at}")])).explained is explained


def test_a_call_just_outside_the_exports_days_explains_but_is_no_group_of_its_own() -> None:
    rows = [billed(140)]
    since, until = days_of(rows)
    assert (since, until) == (1794700800000 - 300_000, 1794787200000 + 300_000)
    group = only(reconcile(rows, [entry(100), entry(40, at="2026-11-14T23:59:00")]))
    assert group.explained


def test_a_call_with_a_tenants_own_key_is_on_the_tenants_bill() -> None:
    group = only(reconcile([billed(100)], [entry(100), entry(40, cost=0)]))
    assert (group.verdict, group.explained, group.free_calls) == ("ledger has more", True, 1)
    assert not only(reconcile([billed(100)], [entry(100), entry(40, cost=None)])).explained


def test_a_model_that_one_side_does_not_have_is_named() -> None:
    report = reconcile([billed(100), billed(5, model="claude-new")], [entry(100), entry(7, model="claude-old")])
    assert [(group.model, group.verdict, group.explained) for group in report.groups] == [
        ("claude-new", "only in export", False),
        ("claude-old", "only in ledger", False),
        ("claude-sonnet-5", "equal", True),
    ]
    assert (report.provider.total, report.ledger.total) == (105, 107)
    assert not report.explained


def test_other_providers_calls_are_left_out_and_counted() -> None:
    ours = [entry(100), entry(5, driver="local", model="smollm2-135m")]
    report = reconcile([billed(100)], ours)
    assert (only(report).verdict, report.left_out) == ("equal", {"local": 1})
    chosen = reconcile([billed(100)], ours, driver="openai")
    assert (only(chosen).verdict, chosen.left_out) == ("only in export", {"anthropic": 1, "local": 1})


def test_tokens_of_another_kind_differ_on_both_sides() -> None:
    group = only(reconcile([billed(60, output=40)], [entry(100)]))
    assert (group.verdict, group.explained) == ("both differ", False)


def test_an_empty_ledger_leaves_everything_to_the_provider() -> None:
    assert only(reconcile([billed(1)], [])).verdict == "only in export"


def test_a_call_at_midnight_explains_nothing_when_the_day_it_would_have_left_or_entered_agrees() -> None:
    ours = [entry(100), entry(40, at="2026-11-15T23:58:00"), entry(70, at="2026-11-16T12:00:00")]
    first, second = reconcile([billed(140), billed(110, day="2026-11-16")], ours).groups
    assert (first.verdict, second.verdict, second.explained) == ("equal", "provider has more", False)
    first, second = reconcile([billed(100), billed(70, day="2026-11-16")], ours).groups
    assert (first.verdict, first.explained, second.verdict) == ("ledger has more", False, "equal")
