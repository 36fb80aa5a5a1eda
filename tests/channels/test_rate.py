from agentvm.channels.rate import SenderRate


def test_each_sender_has_a_number_of_messages_in_a_minute() -> None:
    rate = SenderRate(2)
    assert [rate.take("a", 1) for _ in range(4)] == ["taken", "taken", "first_refused", "refused"]
    assert rate.take("b", 1) == "taken"
    assert rate.take("a", 60_001) == "taken"
