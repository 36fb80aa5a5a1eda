import pytest

from agentvm.model.usage import NO_USAGE, Usage
from agentvm.runtime.estimate import CONNECTING_MS, SECOND_HIDDEN_TOKENS, hidden_tokens, used_by_cut_call


@pytest.mark.parametrize(
    ("most", "asked_at", "heard_at", "tokens"),
    [
        (0, 0, 60_000, 0),
        (500, None, 60_000, 0),
        (500, 0, CONNECTING_MS, 0),
        (500, 0, CONNECTING_MS + 2_000, 2 * SECOND_HIDDEN_TOKENS),
        (500, 0, 10**9, 500),
        (500, 10**9, 0, 0),
    ],
)
def test_a_model_that_was_silent_has_thought_meanwhile_up_to_its_limit(
    most: int, asked_at: int | None, heard_at: int, tokens: int
) -> None:
    assert hidden_tokens(most, asked_at, heard_at) == tokens


def test_what_the_provider_said_counts() -> None:
    reported = Usage(input_tokens=100, output_tokens=50)
    assert used_by_cut_call(reported, "", 7, 9) == reported


def test_without_a_word_of_the_provider_the_prompt_was_read_and_what_was_heard_was_written() -> None:
    used = used_by_cut_call(NO_USAGE, "one two three four", 70, 9)
    assert (used.input_tokens, used.estimated) == (70, True)
    assert used.output_tokens > 9
