from agentvm.model.ledger import Wallet


def test_a_balance_is_what_is_left_and_may_be_owed() -> None:
    assert Wallet().balance == 0
    assert Wallet(credited=10, spent=4, prepaid=True).balance == 6
    assert Wallet(credited=3, spent=4, prepaid=True).balance == -1
