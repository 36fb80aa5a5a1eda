from agentvm.storage.retention import NOTHING, Weight


def test_weights_add_up() -> None:
    assert Weight(1, 20) + Weight(2, 3) == Weight(3, 23)
    assert NOTHING + NOTHING == NOTHING
