from agentvm.tiers.base import default_slots


def test_there_are_two_slots_for_each_core() -> None:
    assert default_slots() >= 2
    assert default_slots() % 2 == 0
