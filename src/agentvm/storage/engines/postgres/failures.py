"""Failures — maps failures of PostgreSQL to errors, and ends their transactions."""

from contextlib import suppress

import psycopg

from agentvm.errors import StoreFailed
from agentvm.log import get_logger
from agentvm.storage.engines import lane
from agentvm.storage.engines.postgres.connection import PostgresConnection, Raw, words_of

logger = get_logger(__name__)


def fail(job: lane.LaneJob[PostgresConnection, object], complaint: str, error: Exception) -> None:
    """Fails a job. The log has all words of the server's error, the job those that clients may read."""
    if not isinstance(error, psycopg.Error):
        job.fail(complaint, error)
        return
    logger.error("database_failed", code=error.sqlstate, error=str(error))
    failed = StoreFailed(f"{complaint}: {words_of(error)}")
    failed.__cause__ = error
    job.fail(complaint, failed)


def roll_back(raw: Raw) -> None:
    """Ends a transaction, if the connection is still there."""
    with suppress(psycopg.Error):
        raw.execute("ROLLBACK")


def roll_back_open(raw: Raw) -> None:
    """The same, if there is one."""
    if raw.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
        roll_back(raw)
