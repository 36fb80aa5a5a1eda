from agentvm.model.usage import NO_USAGE, Usage, estimate_tokens


def test_usage_adds_up_member_by_member() -> None:
    one = Usage(input_tokens=1, output_tokens=2, cache_read_tokens=3, cache_write_tokens=4, thinking_tokens=5)
    both = one + Usage(input_tokens=10, output_tokens=20, cache_read_tokens=30, cache_write_tokens=40, thinking_tokens=50)
    assert both == Usage(input_tokens=11, output_tokens=22, cache_read_tokens=33, cache_write_tokens=44, thinking_tokens=55)
    assert one + NO_USAGE == one


def test_what_is_left_besides_a_part_is_never_less_than_nothing() -> None:
    whole = Usage(input_tokens=5, output_tokens=2, cache_read_tokens=4, estimated=True)
    part = Usage(input_tokens=3, output_tokens=9, cache_read_tokens=4)
    assert whole - part == Usage(input_tokens=2, output_tokens=0, estimated=True)
    assert whole - Usage(input_tokens=0, output_tokens=0) == whole


def test_a_sum_with_an_estimate_is_an_estimate() -> None:
    guessed = Usage(input_tokens=1, output_tokens=1, estimated=True)
    assert (guessed + NO_USAGE).estimated
    assert (NO_USAGE + guessed).estimated
    assert not (NO_USAGE + NO_USAGE).estimated


def test_an_estimate_is_on_the_safe_side() -> None:
    assert estimate_tokens("") == 1
    assert estimate_tokens("a" * 400) >= 100
    assert estimate_tokens("中" * 100) >= 100
