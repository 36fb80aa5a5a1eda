import pytest

from agentvm.model.allowed_host import is_allowed


@pytest.mark.parametrize(
    ("host", "port", "allowed", "answer"),
    [
        ("api.example.org", 443, ["api.example.org"], True),
        ("API.Example.ORG.", 443, ["api.example.org"], True),
        ("api.example.org", 80, ["API.example.org"], True),
        ("api.example.org", 22, ["api.example.org"], False),
        ("api.example.org", 22, ["api.example.org:22"], True),
        ("api.example.org", 443, ["api.example.org:22"], False),
        ("a.b.example.org", 443, ["*.example.org"], True),
        ("example.org", 443, ["*.example.org"], False),
        ("evilexample.org", 443, ["*.example.org"], False),
        ("example.org.evil.net", 443, ["example.org", "*.example.org"], False),
        ("::1", 8080, ["[::1]:8080"], True),
        ("0:0:0:0:0:0:0:1", 8080, ["[::1]:8080"], True),
        ("127.0.0.1", 80, ["127.0.0.1"], True),
        ("127.1", 80, ["127.0.0.1", "127.1"], False),
        ("a b", 80, ["a b"], False),
        ("x.org", 443, [], False),
    ],
)
def test_a_list_means_its_hosts_and_no_others(host: str, port: int, allowed: list[str], answer: bool) -> None:
    assert is_allowed(host, port, allowed) == answer
