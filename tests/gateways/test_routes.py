import msgspec

from agentvm.gateways.routes import GatewayReply, Lenient
from agentvm.operations.http_reply import Streamed


class Known(Lenient, frozen=True):
    name: str = ""


def test_unknown_members_of_a_body_are_ignored() -> None:
    assert msgspec.json.decode(b'{"name":"a","more":{"x":1}}', type=Known) == Known(name="a")


def test_a_reply_knows_whether_it_is_a_stream() -> None:
    assert GatewayReply(content={}).streamed is None
    stream = Streamed(lambda: None, b"")  # type: ignore[arg-type, return-value]  # never opened
    assert GatewayReply(content=stream).streamed is stream
