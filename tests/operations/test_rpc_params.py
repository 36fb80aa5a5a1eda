import pytest

from agentvm.errors import InvalidInput
from agentvm.operations.rpc_params import CLIENT_DATA_MAX_BYTES, CreateParams, Embodiment, client_data, tokens_of


def test_what_is_embodied_stands_beside_the_others() -> None:
    params = CreateParams(name="N", system_prompt="one", embody=Embodiment(system_prompt="two", model="m")).flat()
    assert (params.name, params.system_prompt, params.model) == ("N", "two", "m")


def test_what_is_kept_for_the_client_is_replaced_member_by_member_and_bounded() -> None:
    assert client_data(CreateParams(custom_data={"a": 1}), {"roleId": "r"}) == {"roleId": "r", "customData": {"a": 1}}
    with pytest.raises(InvalidInput):
        client_data(CreateParams(custom_data={"a": "x" * CLIENT_DATA_MAX_BYTES}), {})


def test_a_word_for_thinking_is_a_number_of_tokens() -> None:
    assert [tokens_of(word) for word in (None, "disabled", "low", "high")] == [None, None, 5_000, 32_000]
