import psycopg
import pytest
from psycopg.pq import TransactionStatus

from agentvm.storage.engines.postgres.connection import connect
from agentvm.storage.engines.postgres.failures import roll_back, roll_back_open


def test_a_transaction_that_has_failed_is_ended_and_the_connection_can_be_used_again(database_url: str) -> None:
    with connect(database_url) as raw:
        roll_back_open(raw)
        raw.execute("BEGIN")
        with pytest.raises(psycopg.errors.UndefinedTable):
            raw.execute("SELECT * FROM nothing")
        roll_back_open(raw)
        assert raw.info.transaction_status is TransactionStatus.IDLE
        assert raw.execute("SELECT 1").fetchall() == [(1,)]


def test_the_transaction_of_a_connection_that_is_gone_needs_no_end(database_url: str) -> None:
    raw = connect(database_url)
    raw.close()
    roll_back(raw)
