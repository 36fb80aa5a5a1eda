"""Fixtures of every test, and the list of what could not be tested on this machine."""

import contextlib
import faulthandler
import gc
import os
import shutil
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import httpcore2
import psycopg
import pytest
from hypothesis import settings
from playwright.async_api import Browser
from websockets.asyncio import client

from agentvm import app
from agentvm.storage.engines.postgres.connection import connect
from agentvm.storage.engines.postgres.migrations import load_migrations, migrate
from tests.provision import Unavailable
from tests.provision.chromium import Chromium
from tests.provision.chromium import chromium as provide_chromium
from tests.provision.clients import Clients
from tests.provision.clients import clients as provide_clients
from tests.provision.conformance import Conformance
from tests.provision.conformance import conformance as provide_conformance
from tests.provision.nats import Nats
from tests.provision.nats import nats as provide_nats
from tests.provision.node import node as provide_node
from tests.provision.postgres import Postgres
from tests.provision.postgres import postgres as provide_postgres
from tests.support.browsers import Launch, browser_launcher
from tests.support.engines import EmptiedDatabase, a_database, an_emptied_database, stored_in_postgres
from tests.support.examples import THOROUGH
from tests.support.executed import executed, note_statements, refused
from tests.support.shipped_store import open_shipped_store, ship

# Containers often forbid byte-code. Without it every worker rewrites every assertion, and every `avm` compiles all of itself.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Tests wait for a disk longer than they compute, and as long as the machine runs, what was written stays, synced or not. So
# their folders are in memory where there is room, unless somebody says where they shall be.
IN_MEMORY, ROOM = Path("/dev/shm"), 4 * 1024**3
if "TMPDIR" not in os.environ and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = tempfile.tempdir = str(IN_MEMORY)

# A busy machine may need longer for a handshake than the ten seconds of the library.
client.connect.__init__.__kwdefaults__["open_timeout"] = 60  # type: ignore[index]

# Each client of HTTP reads the certificates of two hundred authorities, for 21 ms of CPU; those of one process share them.
read_certificates = httpcore2.default_ssl_context
shared_certificates: dict[tuple[bool, str | None, str | None], ssl.SSLContext] = {}


def default_ssl_context(*, _trust_env: bool = True) -> ssl.SSLContext:
    key = (_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    if key not in shared_certificates:
        shared_certificates[key] = read_certificates(_trust_env=_trust_env)
    return shared_certificates[key]


patch.object(httpcore2, "default_ssl_context", default_ssl_context).start()

# Servers with a new store begin with the resources that ship with them, instead of publishing them.
patch.object(app, "open_store", open_shipped_store).start()

# A busy machine must not fail a property: what takes too long is pytest-timeout's business.
settings.register_profile("project", deadline=None, max_examples=20)
settings.register_profile(THOROUGH, deadline=None, max_examples=1_000)
settings.load_profile("project")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", choices=["sqlite", "postgres"], default="sqlite", help="where stores are in place of SQLite")
    parser.addoption("--prepare", action="store_true", help="prepare every statement that was executed, on both engines")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--prepare"):
        note_statements()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Of a worker that was killed nothing is known."""
    executed.update(getattr(node, "workeroutput", {}).get("executed", {}))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Ends a process whose test does not end after its timeout either, such as one whose tasks ignore their cancellation."""
    seconds = float(item.config.getoption("timeout") or item.config.getini("timeout"))
    faulthandler.dump_traceback_later(2 * seconds + 120, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def node() -> Path:
    """The `node` program."""
    try:
        return provide_node()
    except Unavailable as error:
        pytest.skip(f"node: {error}")


@pytest.fixture(scope="session")
def clients() -> Clients:
    """The official JavaScript clients of the gateways."""
    try:
        return provide_clients()
    except Unavailable as error:
        pytest.skip(f"JavaScript clients: {error}")


@pytest.fixture(scope="session")
def conformance() -> Conformance:
    """The official test suite of MCP."""
    try:
        return provide_conformance()
    except Unavailable as error:
        pytest.skip(f"MCP conformance: {error}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(provide_postgres())
        except Unavailable as error:
            pytest.skip(f"PostgreSQL: {error}")
        yield server


@pytest.fixture(scope="session")
def nats() -> Iterator[Nats]:
    """A NATS server with a password."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(provide_nats())
        except Unavailable as error:
            pytest.skip(f"NATS: {error}")
        yield server


@pytest.fixture(scope="session")
def template(postgres: Postgres) -> Postgres:
    """A server with a database `migrated`."""
    return with_template(postgres)


@pytest.fixture
def database_url(template: Postgres) -> Iterator[str]:
    """The address of an empty database with the whole schema."""
    with a_database(template) as url:
        yield url


@pytest.fixture(scope="session")
def shipped(template: Postgres) -> Postgres:
    """A server with a database `shipped`."""
    with psycopg.connect(template.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE shipped TEMPLATE migrated")
    anyio.run(ship, template.url("shipped"))
    return template


@pytest.fixture
def shipped_url(shipped: Postgres) -> Iterator[str]:
    """As `database_url`, with what ships with AgentVM: publishing it is most of what opening a node takes."""
    with a_database(shipped, of="shipped") as url:
        yield url


@pytest.fixture(scope="session")
def emptied_database(template: Postgres) -> Iterator[EmptiedDatabase]:
    with an_emptied_database(template) as database:
        yield database


@pytest.fixture(scope="session")
def older_postgres(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A server of an older version, which the test names, with a database `migrated`."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(provide_postgres(request.param))
        except Unavailable as error:
            pytest.skip(f"PostgreSQL {request.param}: {error}")
        yield with_template(server)


@pytest.fixture(scope="session")
def older_emptied_database(older_postgres: Postgres) -> Iterator[EmptiedDatabase]:
    with an_emptied_database(older_postgres) as database:
        yield database


def with_template(server: Postgres) -> Postgres:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE migrated")
    raw = connect(server.url("migrated"))
    migrate(raw, load_migrations())
    raw.close()
    return server


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where stores are that a test opens."""
    if request.config.getoption("--engine") == "sqlite":
        yield
    else:
        with stored_in_postgres(request.getfixturevalue("template")):
            yield


@pytest.fixture
def sqlite_file(request: pytest.FixtureRequest) -> None:
    """For tests that look into the file of SQLite themselves."""
    if request.config.getoption("--engine") != "sqlite":
        pytest.skip("needs the file of SQLite")


@pytest.fixture(scope="session")
def chromium() -> Chromium:
    try:
        return provide_chromium()
    except Unavailable as error:
        pytest.skip(f"chromium: {error}")


@pytest.fixture(scope="module")
async def launcher(chromium: Chromium) -> AsyncIterator[Launch]:
    """Returns a headless browser, the same for all tests of a module: starting one takes longer than most of them."""
    async with browser_launcher(chromium) as launch:
        yield launch


@pytest.fixture
async def browser(launcher: Launch) -> AsyncIterator[Browser]:
    """A headless browser without pages, cookies and anything else of another test."""
    launched = await launcher()
    yield launched
    for context in launched.contexts:
        await context.close()


def pytest_xdist_auto_num_workers() -> int:
    """Tests wait for other processes, for disks and for clocks more than half of their time: two processes for a processor."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return 2 * processors


class Folder(pytest.Package):
    """A folder without `__init__.py` that fixtures of the scope `package` last for."""

    def setup(self) -> None: ...


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return None if (path / "__init__.py").exists() else Folder.from_parent(parent, path=path)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector need not look through it, now or while tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A skip is never silent: says what was not tested, how often and why."""
    skipped = terminalreporter.stats.get("skipped", [])
    for reason, count in Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped).items():
        terminalreporter.write_line(f"NOT TESTED HERE ({count}): {reason}", yellow=True)


REFUSED = 17
"""The end of a run in which an engine has refused a statement."""
FAILED, FEW = Path(__file__).parent.parent / ".cache" / "failed.txt", 20


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Lists a few failed tests for `make test`, which runs them once more, alone. Many failures are no accident."""
    if hasattr(session.config, "workerinput"):
        session.config.workeroutput["executed"] = executed  # type: ignore[attr-defined]  # of a worker
        return
    reporter: pytest.TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    failed = {report.nodeid for word in ("failed", "error") for report in reporter.stats.get(word, [])}
    if session.config.getoption("--prepare"):
        prepare_executed(session, reporter)
    FAILED.parent.mkdir(exist_ok=True)
    is_few = len(failed) <= FEW and session.exitstatus != REFUSED
    FAILED.write_text("".join(f"{each}\n" for each in sorted(failed)) if is_few else "", "utf-8")


def prepare_executed(session: pytest.Session, reporter: pytest.TerminalReporter) -> None:
    """Prepares on both engines what all tests have executed; the run fails if one refuses any of it."""
    try:
        problems = refused(executed)
    except Unavailable as error:
        reporter.write_line(f"NOT TESTED HERE: PostgreSQL: {error}", yellow=True)
        return
    reporter.write_line(f"{len(executed)} statements were executed; both engines prepare all but {len(problems)}")
    for problem in problems:
        reporter.write_line(f"REFUSED BY {problem}", red=True)
    if problems:
        session.exitstatus = REFUSED
