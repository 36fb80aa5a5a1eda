"""Checks — refuses a PostgreSQL server that cannot keep everything, and names the remedy for one that cannot be opened."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from agentvm.errors import StoreFailed
from agentvm.model.node import DatabaseState
from agentvm.storage.engines.postgres.connection import Raw
from agentvm.storage.sql.connection import Connection

_NO_ADDRESS = "its address cannot be read; in a password write @ as %40, / as %2F, : as %3A, # as %23 and % as %25"

_HINTS: tuple[tuple[type[psycopg.Error], str], ...] = (
    (errors.InsufficientPrivilege, "make its user the owner of the database, or grant it CREATE on the schema"),
    (
        errors.LockNotAvailable,
        "something uses its tables and does not end: find it in pg_stat_activity, end it, start again",
    ),
    (errors.DuplicateTable, "it has tables of another program: name a database of AgentVM's own"),
    (errors.ReadOnlySqlTransaction, "name the server that writes; with several hosts add ?target_session_attrs=read-write"),
)
"""Errors of opening a database, and their remedies."""

# The lag of a standby that has nothing to replay, or that the user may not see, is NULL.
_DESCRIBE = """
SELECT split_part(current_setting('server_version'), ' ', 1), current_database()::text, count(*),
       max(extract(epoch FROM replay_lag) * 1000)::bigint
FROM pg_stat_replication
"""

VERSION_MIN = 15

_MUST_BE: tuple[tuple[str, Callable[[str], bool], str], ...] = (
    (
        "server_version_num",
        lambda value: int(value) >= VERSION_MIN * 10_000,
        f"AgentVM needs PostgreSQL {VERSION_MIN} or newer",
    ),
    ("server_encoding", lambda value: value == "UTF8", "not every text can be stored: create it with ENCODING 'UTF8'"),
    ("fsync", lambda value: value == "on", "a crash may lose what was stored: set fsync to on"),
    ("full_page_writes", lambda value: value == "on", "a crash may lose what was stored: set full_page_writes to on"),
    ("synchronous_commit", lambda value: value != "off", "a crash may lose what was stored: set synchronous_commit to on"),
    ("transaction_read_only", lambda value: value == "off", "nothing can be stored: " + _HINTS[-1][1]),
)
"""Settings of the server, a check of their values, and the fault of all others."""


def check_server(raw: Raw) -> None:
    """Refuses a server that cannot store everything, or would forget acknowledged writes."""
    for name, is_good, remedy in _MUST_BE:
        value = raw.execute(f"SHOW {name}").fetchall()[0][0]
        if not is_good(value):
            raise StoreFailed(f"Cannot open the PostgreSQL database: it has {name} = {value}; {remedy}")


def describe_server(connection: Connection) -> DatabaseState:
    """The version of the server, and how far its standbys are behind."""
    version, name, standbys, lag_ms = connection.fetch(_DESCRIBE)[0]
    return DatabaseState(engine="postgresql", version=version, name=name, standbys=standbys, lag_ms=lag_ms)


@contextmanager
def explained() -> Generator[None]:
    """Errors of PostgreSQL as those of AgentVM, without the password."""
    try:
        yield
    except psycopg.Error as error:
        if isinstance(error, errors.ProgrammingError) and error.sqlstate is None:
            # The words of the error have parts of the address, and that has a password.
            raise StoreFailed(f"Cannot open the PostgreSQL database: {_NO_ADDRESS}") from None
        remedy = next((f"; {hint}" for kind, hint in _HINTS if isinstance(error, kind)), "")
        reason = " ".join(str(error).split())
        raise StoreFailed(f"Cannot open the PostgreSQL database: {reason}{remedy}") from error
