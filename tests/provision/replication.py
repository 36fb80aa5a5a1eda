"""Replication — a PostgreSQL server with a synchronous standby, for tests of a failover."""

import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.provision.postgres import PAUSE_SECONDS, START_SECONDS, Postgres, launch, postgres, programs, run_as


@dataclass(slots=True)
class Replicated:
    """A primary, and a standby without which it acknowledges nothing."""

    primary: Postgres
    standby: Postgres

    def url(self, database: str = "postgres") -> str:
        """Both of them: whoever connects finds the one that writes."""
        hosts = f"{self.primary.folder},{self.standby.folder}"
        return f"postgresql://avm@/{database}?host={hosts}&target_session_attrs=read-write"

    def fail_over(self) -> None:
        """The primary is killed, the standby takes its place."""
        self.primary.process.send_signal(signal.SIGKILL)
        self.primary.process.wait(30)
        with psycopg.connect(self.standby.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")


@contextmanager
def replicated() -> Generator[Replicated]:
    """Both servers; or Unavailable."""
    with ExitStack() as stack:
        primary = stack.enter_context(postgres())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="avm-pg-", ignore_cleanup_errors=True)))
        user = run_as(folder)
        found = programs().reachable(folder, user)
        copied = [found.folder / "pg_basebackup", "-D", folder / "data", "-h", primary.folder, "-U", "avm", "-R", "-c", "fast"]
        subprocess.run(list(map(str, copied)), user=user, check=True, capture_output=True, timeout=120)
        standby = stack.enter_context(launch(found, folder, user))
        with psycopg.connect(primary.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            until = time.monotonic() + START_SECONDS
            while connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != [("sync",)]:
                assert time.monotonic() < until, "the standby does not follow"
                time.sleep(PAUSE_SECONDS)
        yield Replicated(primary, standby)
