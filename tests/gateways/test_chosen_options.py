import pytest

from agentvm.errors import InvalidInput
from agentvm.gateways.chosen_options import read_chosen


def test_a_fault_is_told_by_the_name_that_the_client_has_written() -> None:
    assert read_chosen({"maxTokens": 5}).max_tokens == 5
    with pytest.raises(InvalidInput, match=r"^The body is invalid: max_output_tokens must be a whole number, at least 1$"):
        read_chosen({"maxTokens": -1}, "max_output_tokens")
