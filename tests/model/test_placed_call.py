import msgspec

from agentvm.model.ids import TurnId
from agentvm.model.placed_call import PlacedCall, placed_call
from agentvm.model.tier import TIERS, Placed, Unplaced


def test_the_reasons_of_a_call_fit_into_a_kilobyte() -> None:
    why = tuple((tier, "x" * 10_000) for tier in TIERS)
    call = placed_call(
        TurnId("turn_1"), "c" * 40, "t" * 64, "p" * 10_000, Placed(tier="process", why=why, price=2**40, start_ms=5.5)
    )
    assert len(msgspec.json.encode(call)) <= 1_024
    assert [tier for tier, _ in call.why] == list(TIERS)


def test_a_call_that_no_tier_can_run_has_the_verdicts_and_no_tier() -> None:
    unplaced = Unplaced(reason="none", why=(("process", "lacks engine javascript"),))
    expected = PlacedCall(turn_id=TurnId("t"), call_id="c", tool="x", policy="p", why=unplaced.why)
    assert placed_call(TurnId("t"), "c", "x", "p", unplaced) == expected
    assert placed_call(TurnId("t"), "c", "x", "p", None) == msgspec.structs.replace(expected, why=())
