import pytest

from agentvm.cluster.nats_wire import NatsAddress, NatsMessage, NatsReader, connect_line, parse_addresses


def test_addresses_are_read_with_their_passwords_which_are_not_shown() -> None:
    first, second = parse_addresses("nats://avm:p%40ss@a.example, tls://token@b.example:5222")
    assert first == NatsAddress("a.example", 4222, user="avm", password="p@ss")
    assert (second.host, second.port, second.tls, second.user, second.password) == ("b.example", 5222, True, "token", None)
    assert (first.shown, second.shown) == ("nats://a.example:4222", "tls://b.example:5222")
    assert "p@ss" not in repr(first)
    assert b'"user":"avm","pass":"p@ss"' in connect_line(first, "n")
    assert b'"auth_token":"token"' in connect_line(second, "n")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("http://a:4222", "not a NATS URL"),
        ("nats://", "not a NATS URL"),
        ("a:4222", "not a NATS URL"),
        ("nats://a:port", "not a number"),
        ("nats://a:4222/path", "has no path"),
        ("nats://avm:secret/one@a", "not a number"),
        ("nats://a,", "not a NATS URL"),
    ],
)
def test_a_wrong_address_is_explained_without_its_password(text: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as refused:
        parse_addresses(text)
    assert "secret" not in str(refused.value)


STREAM = b"INFO {}\r\nMSG avm.x 7 5\r\nhe\r\no\r\nPING\r\nMSG avm.x 8 reply 0\r\n\r\n-ERR 'Slow Consumer'\r\n"
LINES = [b"INFO {}", NatsMessage(7, b"he\r\no"), b"PING", NatsMessage(8, b""), b"-ERR 'Slow Consumer'"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_stream_is_read_alike_however_it_is_cut(size: int) -> None:
    reader = NatsReader()
    assert [line for at in range(0, len(STREAM), size) for line in reader.feed(STREAM[at : at + size])] == LINES


def test_one_who_takes_a_line_at_a_time_loses_nothing() -> None:
    reader = NatsReader()
    assert next(iter(reader.feed(STREAM))) == LINES[0]
    assert [*reader.feed(b"")] == LINES[1:]


@pytest.mark.parametrize("wrong", [b"MSG avm.x 7\r\n", b"MSG avm.x a 5\r\n", b"MSG avm.x 7 99999999999\r\n", b"x" * 70_000])
def test_anything_else_is_no_nats(wrong: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # whatever the words
        [*NatsReader().feed(wrong)]
