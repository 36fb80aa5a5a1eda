import pytest

from agentvm.server.proxies import TrustedProxies, forwarded_sign, real

PROXY = "10.0.0.1"
TRUSTED = TrustedProxies([PROXY, "192.168.0.0/16", "::1", "127.0.0.1"])


def headers(**values: str) -> list[tuple[bytes, bytes]]:
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in values.items()]


@pytest.mark.parametrize(
    ("peer", "said", "client"),
    [
        (PROXY, "203.0.113.5", "203.0.113.5"),
        (PROXY, "6.6.6.6, 203.0.113.5", "203.0.113.5"),
        (PROXY, "6.6.6.6, 203.0.113.5, 192.168.7.7", "203.0.113.5"),
        (PROXY, "192.168.1.1, 192.168.7.7", "192.168.1.1"),
        (PROXY, "203.0.113.5:4711", "203.0.113.5"),
        (PROXY, "[2001:db8::1]:4711", "2001:db8::1"),
        (PROXY, "2001:db8::1", "2001:db8::1"),
        (PROXY, "::ffff:203.0.113.5", "203.0.113.5"),
        (PROXY, "6.6.6.6, nonsense", PROXY),
        (PROXY, "6.6.6.6, unknown, 192.168.7.7", "192.168.7.7"),
        (PROXY, " , ", PROXY),
        (PROXY, "", PROXY),
        ("::ffff:10.0.0.1", "203.0.113.5", "203.0.113.5"),
        ("203.0.113.9", "6.6.6.6", "203.0.113.9"),
        ("no address", "6.6.6.6", "no address"),
    ],
)
def test_the_client_is_the_right_most_that_is_no_proxy_of_ours(peer: str, said: str, client: str) -> None:
    assert TRUSTED.client_of(peer, headers(x_forwarded_for=said)) == client


def test_a_header_that_comes_twice_is_one_list() -> None:
    twice = [*headers(x_forwarded_for="6.6.6.6"), *headers(X_Forwarded_For="203.0.113.5")]
    assert TRUSTED.client_of(PROXY, twice) == "203.0.113.5"


@pytest.mark.parametrize(
    ("said", "client"),
    [
        ("for=203.0.113.5", "203.0.113.5"),
        ('for="[2001:db8::1]:80";proto=https', "2001:db8::1"),
        ("for=6.6.6.6, for=203.0.113.5;by=10.0.0.1", "203.0.113.5"),
        ("for=_hidden", PROXY),
        ("proto=https", PROXY),
        ('for="6.6.6.6', PROXY),
    ],
)
def test_the_standard_header_is_read_the_same_way(said: str, client: str) -> None:
    assert TRUSTED.client_of(PROXY, headers(forwarded=said)) == client


def test_two_headers_that_contradict_each_other_are_both_left() -> None:
    both = headers(forwarded="for=6.6.6.6", x_forwarded_for="203.0.113.5")
    assert TRUSTED.client_of(PROXY, both) == PROXY
    same = headers(forwarded="for=203.0.113.5", x_forwarded_for="203.0.113.5")
    assert TRUSTED.client_of(PROXY, same) == "203.0.113.5"


def test_nobody_is_trusted_unless_they_are_named() -> None:
    assert TrustedProxies().client_of("127.0.0.1", headers(x_forwarded_for="6.6.6.6")) == "127.0.0.1"


@pytest.mark.parametrize(
    ("said", "scheme"), [("https", "https"), ("http, https", "https"), ("wss", "https"), ("ftp", None), ("", None)]
)
def test_the_scheme_is_what_the_proxy_says(said: str, scheme: str | None) -> None:
    assert TRUSTED.scheme_of(PROXY, headers(x_forwarded_proto=said)) == scheme
    assert TRUSTED.scheme_of("203.0.113.9", headers(x_forwarded_proto=said)) is None


def test_a_scope_has_the_real_client_and_scheme() -> None:
    said = headers(x_forwarded_for="203.0.113.5", x_forwarded_proto="https")
    for kind, scheme in (("http", "https"), ("websocket", "wss")):
        scope = real({"type": kind, "scheme": "x", "client": (PROXY, 5), "headers": said}, TRUSTED)
        assert (scope["client"], scope["scheme"]) == (("203.0.113.5", 0), scheme)
    stranger = {"type": "http", "scheme": "http", "client": ("203.0.113.9", 5), "headers": said}
    assert real(dict(stranger), TRUSTED) == stranger
    assert real({"type": "http", "client": None, "headers": said}, TRUSTED)["client"] is None


@pytest.mark.parametrize("name", ["X-Forwarded-For", "x-forwarded-host", "Forwarded", "VIA", "X-Real-IP"])
def test_a_request_that_came_through_a_proxy_shows_it(name: str) -> None:
    assert forwarded_sign([(b"host", b"x"), (name.encode(), b"")]) == name.lower()
    assert forwarded_sign([(b"host", b"x"), (b"x-forward", b"")]) is None
