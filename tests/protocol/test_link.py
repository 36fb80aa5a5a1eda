import msgspec

from agentvm.protocol.link import WireEvent


def test_an_event_of_the_wire_needs_no_more_than_its_type() -> None:
    event = msgspec.json.decode(b'{"type": "text_delta", "data": {"text": "hi"}, "of a later release": 1}', type=WireEvent)
    assert (event.type, event.data, event.cursor) == ("text_delta", {"text": "hi"}, None)
