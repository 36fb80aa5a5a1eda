"""Using — the locks of a database's users: a server has it alone, or nodes have it together and tell which schema they know.

A lock belongs to a connection and ends with it, so that a process that was killed does not lock others out.
"""

import time

from agentvm.errors import DataDirInUse
from agentvm.storage.engines.postgres.connection import Raw, connect

PAUSE_SECONDS = 0.1
LOCK_SECONDS = 3.0
"""Time that a starting server waits for another one to leave the database."""

USING_CODE = 7161736578
"""The lock of the users of the database: a server alone, or its nodes together."""
_KNOWN_CODE = 71617365
"""With the number of a schema: the lock of the nodes that know it."""
_TELL_KNOWN = f"SELECT pg_advisory_lock_shared({_KNOWN_CODE}, $1::int)"
# Also the nodes of releases that tell no schema.
UNKNOWING = f"""
SELECT 1 FROM pg_locks AS u
WHERE u.locktype = 'advisory' AND u.granted AND u.pid <> pg_backend_pid()
  AND u.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND u.classid = {USING_CODE >> 32}::bigint::oid AND u.objid = {USING_CODE & 0xFFFFFFFF}::bigint::oid AND u.objsubid = 1
  AND NOT EXISTS (
      SELECT 1 FROM pg_locks AS k
      WHERE k.pid = u.pid AND k.database = u.database AND k.locktype = 'advisory' AND k.granted
        AND k.classid = {_KNOWN_CODE}::bigint::oid AND k.objsubid = 2 AND k.objid::bigint >= $1
  )
LIMIT 1
"""
"""Finds a connection of a node that does not know the schema of that number."""
_LOCK = f"SELECT pg_try_advisory_lock({USING_CODE})"
_SHARED_LOCK = f"SELECT pg_try_advisory_lock_shared({USING_CODE})"
# Frees the locks of a process that is stopped in the middle of a transaction, for those who declare it dead.
_STOPPED = "SET idle_in_transaction_session_timeout = '2s'"


def connect_writer(url: str) -> Raw:
    """The connection that writes. `DataDirInUse` while another server has one."""
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
    raw.execute(_TELL_KNOWN, (knows,))
    return raw


def connect_waiting(url: str, knows: int | None) -> Raw:
    """A connection that writes, that of a node if a schema is named. Waits a moment: the server may not have noticed yet that
    the process before was killed.
    """
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return connect_writer(url) if knows is None else connect_node(url, knows)
        except DataDirInUse:
            if time.monotonic() >= until:
                raise
            time.sleep(PAUSE_SECONDS)
