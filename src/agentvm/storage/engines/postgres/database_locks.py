"""Database locks — a server holds the database alone, or cluster nodes share it and announce the schema version they support.

A lock belongs to a connection and ends with it: a killed process does not lock others out.
"""

import time

from agentvm.errors import DataDirInUse
from agentvm.storage.engines.postgres.connection import Raw, connect

RETRY_INTERVAL_SECONDS = 0.1
LOCK_SECONDS = 3.0
"""Time that a starting server waits for another one to leave the database."""

USING_CODE = 7161736578
"""The advisory lock of all servers: exclusive for a single server, shared by the nodes of a cluster."""
_SCHEMA_CODE = 71617365
"""With a schema version as the second number: the shared lock of the nodes that support it."""
_ANNOUNCE_SCHEMA = f"SELECT pg_advisory_lock_shared({_SCHEMA_CODE}, $1::int)"
# Includes nodes of releases that announce no schema version.
OUTDATED_NODES = f"""
SELECT 1 FROM pg_locks AS u
WHERE u.locktype = 'advisory' AND u.granted AND u.pid <> pg_backend_pid()
  AND u.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND u.classid = {USING_CODE >> 32}::bigint::oid AND u.objid = {USING_CODE & 0xFFFFFFFF}::bigint::oid AND u.objsubid = 1
  AND NOT EXISTS (
      SELECT 1 FROM pg_locks AS k
      WHERE k.pid = u.pid AND k.database = u.database AND k.locktype = 'advisory' AND k.granted
        AND k.classid = {_SCHEMA_CODE}::bigint::oid AND k.objsubid = 2 AND k.objid::bigint >= $1
  )
LIMIT 1
"""
"""Finds a connection of a node that does not support that schema version."""
_LOCK = f"SELECT pg_try_advisory_lock({USING_CODE})"
_SHARED_LOCK = f"SELECT pg_try_advisory_lock_shared({USING_CODE})"
# Frees the locks of a process that is stopped in the middle of a transaction, for those who declare it dead.
_STOPPED = "SET idle_in_transaction_session_timeout = '2s'"


def connect_writer(url: str) -> Raw:
    """Opens the writing connection of a single server. `DataDirInUse` while another server has one."""
    raw = connect(url)
    if not raw.execute(_LOCK).fetchall()[0][0]:
        raw.close()
        raise DataDirInUse(
            "The database is in use by another AgentVM: stop that one, name another database, or make both of them nodes of a "
            "cluster with AVM_CLUSTER=on"
        )
    return raw


def connect_node(url: str, knows: int) -> Raw:
    """A writing connection of a cluster node, with a lock that announces the newest schema the node supports.

    `DataDirInUse` while a server has the database alone.
    """
    raw = connect(url)
    if not raw.execute(_SHARED_LOCK).fetchall()[0][0]:
        raw.close()
        raise DataDirInUse("A server outside a cluster uses this database: start that server with AVM_CLUSTER=on")
    raw.execute(_STOPPED)
    raw.execute(_ANNOUNCE_SCHEMA, (knows,))
    return raw


def connect_waiting(url: str, knows: int | None) -> Raw:
    """Opens the writing connection; that of a cluster node if `knows` names a schema version.

    Waits up to `LOCK_SECONDS`: PostgreSQL may not have noticed yet that the previous process was killed.
    """
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return connect_writer(url) if knows is None else connect_node(url, knows)
        except DataDirInUse:
            if time.monotonic() >= until:
                raise
            time.sleep(RETRY_INTERVAL_SECONDS)
