import pytest
from tests.drivers.fixtures import FAILURES
from tests.support import answers

from agentvm.drivers.anthropic_relay import RelayedMessages
from agentvm.drivers.base import MessageStarted, MessageStopped, TextChunk, UsageReported
from agentvm.errors import ProviderOverloaded, ProviderProtocolError
from agentvm.model.usage import Usage


def data_of(event: bytes) -> str:
    return event.partition(b"data: ")[2].decode().rstrip("\n")


def test_events_go_on_byte_for_byte_and_their_usage_is_read() -> None:
    decoder = RelayedMessages(FAILURES)
    events = [
        answers.message_start(),
        answers.event("ping", {}),
        answers.event("something_new", {"more": [1, 2]}),
        *answers.text_block(0, "Hi"),
        *answers.message_end("end_turn", usage={"output_tokens": 7}),
    ]
    outputs = [output for event in events for output in decoder.feed(data_of(event))]
    assert decoder.take() == b"".join(events)
    assert outputs == [
        MessageStarted("msg_1", "claude-test"),
        UsageReported(Usage(input_tokens=10, output_tokens=1)),
        TextChunk("Hi"),
        UsageReported(Usage(input_tokens=10, output_tokens=7)),
        MessageStopped("end_turn"),
    ]
    assert decoder.finished


def test_what_cannot_be_read_goes_on_all_the_same() -> None:
    decoder = RelayedMessages(FAILURES)
    assert decoder.feed("no JSON\nat all") == ()
    assert decoder.take() == b"data: no JSON\ndata: at all\n\n"
    assert list(decoder.read(b"neither")) == [MessageStarted("", ""), MessageStopped("end_turn")]


def test_an_error_goes_on_and_is_raised() -> None:
    decoder = RelayedMessages(FAILURES)
    with pytest.raises(ProviderOverloaded):
        decoder.feed('{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}')
    assert decoder.has_failed
    assert b"event: error" in decoder.take()
    with pytest.raises(ProviderProtocolError):
        decoder.end()
