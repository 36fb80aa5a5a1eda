import msgspec
import pytest

from agentvm.errors import InvalidInput
from agentvm.gateways.routes import KEY_HEADER, KEY_MAX, Ask, GatewayReply, Lenient
from agentvm.operations.http_reply import Streamed


class Known(Lenient, frozen=True):
    name: str = ""


def test_unknown_members_of_a_body_are_ignored() -> None:
    assert msgspec.json.decode(b'{"name":"a","more":{"x":1}}', type=Known) == Known(name="a")


def test_a_reply_knows_whether_it_is_a_stream() -> None:
    assert GatewayReply(content={}).streamed is None
    stream = Streamed(lambda: None, b"")  # type: ignore[arg-type, return-value]  # never opened
    assert GatewayReply(content=stream).streamed is stream


def test_the_key_of_a_request_has_a_length() -> None:
    assert Ask(body=Known()).key is None
    assert Ask(body=Known(), headers={KEY_HEADER: "k" * KEY_MAX}).key == "k" * KEY_MAX
    for key in ("", "k" * (KEY_MAX + 1)):
        with pytest.raises(InvalidInput, match="Idempotency-Key"):
            _ = Ask(body=Known(), headers={KEY_HEADER: key}).key
