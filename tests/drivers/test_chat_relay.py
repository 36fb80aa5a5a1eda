import pytest
from tests.drivers.fixtures import FAILURES
from tests.support import answers

from agentvm.drivers.base import MessageStarted, MessageStopped, TextChunk, UsageReported
from agentvm.drivers.chat_relay import RelayedChat
from agentvm.errors import ProviderError, ProviderProtocolError
from agentvm.model.usage import Usage


def data_of(chunk: bytes) -> str:
    return chunk.decode().removeprefix("data: ").rstrip("\n")


@pytest.mark.parametrize("hides", [True, False])
def test_chunks_go_on_byte_for_byte_but_for_usage_that_nobody_asked_for(hides: bool) -> None:
    decoder = RelayedChat(FAILURES, hides_usage=hides)
    call = answers.call_delta(0, call_id="c", name="f", arguments='{"a":1}')
    chunks = [answers.delta({"content": "Hi"}), call, *answers.openai_end()]
    outputs = [output for chunk in chunks for output in decoder.feed(data_of(chunk))]
    told = [chunk for chunk in chunks if not (hides and chunk == answers.usage_chunk())]
    assert decoder.take() == b"".join(told)
    assert outputs == [
        MessageStarted("chatcmpl-1", "gpt-test"),
        TextChunk("Hi"),
        TextChunk('{"a":1}'),
        UsageReported(Usage(input_tokens=10, output_tokens=5)),
        MessageStopped("end_turn"),
    ]
    assert decoder.finished


def test_what_cannot_be_read_goes_on_all_the_same() -> None:
    decoder = RelayedChat(FAILURES, hides_usage=True)
    assert decoder.feed("{") == ()
    assert decoder.take() == b"data: {\n\n"
    assert list(decoder.read(b"{")) == [MessageStarted("", ""), MessageStopped("end_turn")]


def test_a_stream_ends_well_only_after_a_reason_to_stop() -> None:
    decoder = RelayedChat(FAILURES, hides_usage=True)
    with pytest.raises(ProviderProtocolError):
        decoder.end()
    decoder.feed(data_of(answers.delta({}, finish="stop")))
    assert decoder.end() == (MessageStopped("end_turn"),)
    with pytest.raises(ProviderError):
        decoder.feed('{"error": {"message": "no"}}')
    assert decoder.has_failed
