"""PostgreSQL and NATS for chaos: both can be lost and come back where they were, with what they had."""

import signal
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from tests.provision.nats import PROTECTED, Nats, nats
from tests.provision.postgres import Postgres, launch, postgres, programs, run_as


class Infrastructure:
    """PostgreSQL and NATS, which can be lost and come back where they were."""

    def __init__(self, stack: ExitStack) -> None:
        first = stack.enter_context(postgres())
        self.folder = first.folder
        self._user = run_as(first.folder)
        self._programs = programs().reachable(Path(stack.enter_context(tempfile.TemporaryDirectory())), self._user)
        self._postgres: Postgres = first
        self._own = stack.enter_context(ExitStack())
        self._bus = stack.enter_context(ExitStack())
        self.nats: Nats = self._bus.enter_context(nats())
        with psycopg.connect(first.url(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE avm")

    @property
    def url(self) -> str:
        return self._postgres.url("avm")

    def crash_database(self) -> None:
        """Without a checkpoint: what was committed is in its log alone."""
        self._postgres.process.send_signal(signal.SIGQUIT)
        self._postgres.process.wait(30)

    def start_database(self) -> None:
        self._own.close()
        self._postgres = self._own.enter_context(launch(self._programs, self.folder, self._user))

    def stop_bus(self) -> None:
        self._bus.close()

    def start_bus(self) -> None:
        self.nats = self._bus.enter_context(nats(*PROTECTED, port=self.nats.port))


UNFINISHED = """
SELECT (SELECT count(*) FROM turns WHERE outcome IS NULL) + (SELECT count(*) FROM journal) + (SELECT count(*) FROM asked)
     + (SELECT count(*) FROM sessions WHERE runner IS NOT NULL OR tail_of IS NOT NULL)
"""
HEADS = "SELECT session_id, max(last_seq) FROM log JOIN sessions USING (session_key) GROUP BY session_id"


def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(sql).fetchall()


def is_quiet(url: str) -> bool:
    """Whether every turn has ended, and nothing of a node that has ended is left."""
    return query(url, UNFINISHED) == [(0,)]


def read_heads(url: str) -> dict[str, int]:
    """The last event of each session."""
    return dict(query(url, HEADS))
