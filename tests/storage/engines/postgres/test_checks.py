"""A server that cannot keep everything is refused, with what to do."""

from collections.abc import Iterator

import psycopg
import pytest
from tests.provision.postgres import Postgres

from agentvm.errors import StoreFailed
from agentvm.storage.engines.postgres.checks import check_server
from agentvm.storage.engines.postgres.database import open_database

GOOD = {
    "server_version_num": "150018", "server_encoding": "UTF8", "fsync": "on", "full_page_writes": "on",
    "synchronous_commit": "remote_apply", "transaction_read_only": "off",
}  # fmt: skip


class Settings:
    """A connection to a server with these settings."""

    def __init__(self, **settings: str) -> None:
        self._settings = GOOD | settings

    def execute(self, query: str) -> "Settings":
        self._value = self._settings[query.removeprefix("SHOW ")]
        return self

    def fetchall(self) -> list[tuple[str]]:
        return [(self._value,)]


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("server_version_num", "140021", "needs PostgreSQL 15 or newer"),
        ("server_encoding", "SQL_ASCII", "ENCODING 'UTF8'"),
        ("fsync", "off", "set fsync to on"),
        ("full_page_writes", "off", "set full_page_writes to on"),
        ("synchronous_commit", "off", "set synchronous_commit to on"),
        ("transaction_read_only", "on", "target_session_attrs=read-write"),
    ],
)
def test_settings_with_which_something_is_lost_are_refused(name: str, value: str, remedy: str) -> None:
    check_server(Settings())  # type: ignore[arg-type]  # all that is asked of a connection
    with pytest.raises(StoreFailed, match=f"{name} = {value}; .*{remedy}"):
        check_server(Settings(**{name: value}))  # type: ignore[arg-type]  # as above


async def refusal(url: str) -> str:
    with pytest.raises(StoreFailed) as refused:
        async with open_database(url, readers=1):
            raise AssertionError("It was opened")
    return str(refused.value)


@pytest.fixture
def empty(postgres: Postgres) -> Iterator[str]:
    """The address of a database without any table."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE bare")
        yield postgres.url("bare")
        connection.execute("DROP DATABASE bare WITH (FORCE)")
        connection.execute("DROP ROLE IF EXISTS stranger")


async def test_what_cannot_be_opened_is_explained(postgres: Postgres, empty: str) -> None:
    assert 'database "none" does not exist' in await refusal(postgres.url("none"))
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("ALTER DATABASE bare SET default_transaction_read_only = on")
    assert "read-write" in await refusal(empty)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("ALTER DATABASE bare RESET default_transaction_read_only")
        connection.execute("CREATE ROLE stranger LOGIN")
    assert "owner of the database" in await refusal(empty.replace("avm@", "stranger@"))
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("CREATE TABLE users (name text)")
    assert "tables of another program" in await refusal(empty)
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (4,)
