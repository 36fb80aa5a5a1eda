from agentvm.model.address import is_loopback


def test_what_only_this_machine_reaches_is_loopback() -> None:
    assert [host for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost") if not is_loopback(host)] == []
    assert [host for host in ("0.0.0.0", "::", "10.0.0.1", "example.test") if is_loopback(host)] == []
