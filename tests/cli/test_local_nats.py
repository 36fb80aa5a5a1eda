"""A NATS of its own, out of a Python package."""

import socket
from pathlib import Path

import pytest
from tests.provision import Unavailable
from tests.provision.nats import program

from agentvm.cli.local_nats import local_nats
from agentvm.errors import NotAvailable


def test_it_listens_on_this_machine_with_a_password_and_ends_with_the_block(tmp_path: Path) -> None:
    try:
        program()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with local_nats(tmp_path) as url:
        assert url is not None
        assert url.startswith("nats://avm:")
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            assert b'"auth_required":true' in connection.recv(4096)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=60)


def test_without_the_program_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.cli.local_nats._program", lambda: None)
    with local_nats(tmp_path) as url:
        assert url is None


def test_a_server_that_does_not_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (broken := tmp_path / "broken").write_text("#!/bin/sh\necho no room; exit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("agentvm.cli.local_nats._program", lambda: broken)
    with pytest.raises(NotAvailable, match="no room"), local_nats(tmp_path):
        raise AssertionError("It was started")
