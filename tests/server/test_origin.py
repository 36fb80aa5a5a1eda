import pytest

from agentvm.server.origin import foreign_page, refusal


def asked(*, host: str = "127.0.0.1:8080", origin: str | None = None, bound_to: str = "127.0.0.1", allowed: str = "") -> bool:
    headers = [(b"Host", host.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    return refusal(headers, bound_to=bound_to, allowed=tuple(allowed.split())) is None


def test_a_program_that_is_no_browser_may_connect() -> None:
    assert asked()
    assert asked(host="agents.example", bound_to="0.0.0.0")


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8000", "http://[::1]:1", "https://localhost"])
def test_a_page_of_this_machine_may_connect(origin: str) -> None:
    assert asked(origin=origin)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", "http://localhost.evil.example", "http://[", "file://"])
def test_a_page_from_elsewhere_may_not(origin: str) -> None:
    assert not asked(origin=origin)
    assert not asked(origin=origin, bound_to="0.0.0.0", host="agents.example")


def test_a_page_of_the_servers_own_host_may_connect() -> None:
    assert asked(origin="https://agents.example", host="agents.example", bound_to="0.0.0.0")


def test_a_name_that_only_points_to_this_machine_is_refused() -> None:
    assert not asked(origin="http://evil.example:8080", host="evil.example:8080")
    assert not asked(host="evil.example")


def test_the_operator_may_allow_origins_and_so_names() -> None:
    assert asked(origin="https://app.example", allowed="https://app.example", host="app.example")
    assert not asked(origin="https://other.example", allowed="https://app.example")
    assert asked(origin="https://anything.example", host="anything", allowed="*")


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "site", "is_own"),
    [
        ("http", "agents.example", "http://agents.example", None, True),
        ("http", "agents.example", "https://agents.example", None, True),
        ("https", "Agents.example", "https://agents.example", "same-origin", True),
        ("wss", "agents.example", "https://agents.example", "same-origin", True),
        ("http", "[::1]:8080", "http://[::1]:8080", "same-origin", True),
        ("https", "agents.example", "http://agents.example", None, False),
        ("wss", "agents.example", "http://agents.example", None, False),
        ("https", "agents.example", "https://agents.example:8443", None, False),
        ("https", "agents.example", "https://evil.agents.example", "same-site", False),
        ("https", "agents.example", "https://agents.example", "same-site", False),
        ("https", "agents.example", "https://agents.example.evil.example", None, False),
        ("https", "agents.example", "null", None, False),
        ("https", "", "https://", "", False),
        ("https", "agents.example", None, "same-origin", False),
        ("https", "agents.example", None, None, False),
    ],
)
def test_a_cookie_counts_only_from_a_page_of_the_server(
    scheme: str, host: str, origin: str | None, site: str | None, is_own: bool
) -> None:
    named = ((b"Host", host), (b"Origin", origin), (b"Sec-Fetch-Site", site))
    headers = [(name, value.encode()) for name, value in named if value is not None]
    assert (foreign_page(headers, scheme=scheme) is None) == is_own
    is_program = origin is None and site is None
    assert (foreign_page(headers, scheme=scheme, is_required=False) is None) == (is_own or is_program)
