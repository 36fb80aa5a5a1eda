"""A PostgreSQL of its own, out of a Python package."""

import tempfile
from pathlib import Path

import psycopg
import pytest
from tests.provision import Unavailable
from tests.provision.postgres import programs

from agentvm.cli.local_postgres import LocalPostgres
from agentvm.errors import NotAvailable


def test_what_was_committed_outlives_a_crash() -> None:
    try:
        programs()
    except Unavailable as reason:
        pytest.skip(str(reason))
    # The path of a socket has room for a hundred characters.
    with tempfile.TemporaryDirectory(prefix="avm-") as name:
        Path(name).chmod(0o711)
        (folder := Path(name) / "pg").mkdir()
        server = LocalPostgres(folder)
        server.start()
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept (number int)")
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(server.url)
        server.start()
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchall() == [(0,)]
        server.stop()


def test_without_postgresql_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotAvailable, match=r"pip install 'agentvm\[demo\]'"):
        LocalPostgres(tmp_path)
