from agentvm.drivers.anthropic_events import MessageUsage, decode_event, merge_usage
from agentvm.model.usage import NO_USAGE, Usage


def test_an_event_of_any_type_is_read() -> None:
    event = decode_event('{"type": "new", "delta": {"type": "other", "text": "x", "more": {}}, "unknown": 1}')
    assert (event.type, event.delta and event.delta.text) == ("new", "x")


def test_counts_are_cumulative_and_one_that_is_left_out_stays() -> None:
    begun = merge_usage(NO_USAGE, MessageUsage(input_tokens=10, output_tokens=1, cache_read_input_tokens=5))
    ended = merge_usage(begun, MessageUsage(output_tokens=9, input_tokens=-1))
    assert ended == Usage(input_tokens=10, output_tokens=9, cache_read_tokens=5)
