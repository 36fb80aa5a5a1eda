"""Connection — how a query reaches a database: three methods, a search index, and the port that every engine implements.

Rules of the text, so that one text serves every engine:
- Parameters are written `?`, `?1` or `:name`; the engine translates them. The same text is prepared once.
- SQL that differs between engines is taken from `agentvm.storage.sql.dialect`; words are searched with `Connection.search`.
  Everything else is standard SQL. `tests/storage/sql/test_portable.py` scans the statements.

Rules of the work:
- Work is a plain function of a connection. It runs in a thread, outside of the event loop, and never begins or ends a
  transaction. It must bear being run twice: an engine repeats it when the transaction was lost.
- Work that reads and then writes relies on the isolation of `Database.write`: as if every work ran alone. SQLite has one
  writer; an engine with several must serialise them, or detect the conflict and run the work again.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agentvm.model.ids import TenantId
from agentvm.storage.sql.search_index import SearchIndex

if TYPE_CHECKING:
    from agentvm.model.node import DatabaseState
    from agentvm.storage.base import SessionWrite
    from agentvm.storage.sql.session_write import AddedTogether, PreparedWrite

T = TypeVar("T")

Row = tuple[Any, ...]
# Any: the tables are strict, so a column has the type that the schema gives it.
Args = Sequence[Any] | Mapping[str, Any]


NUL, NUL_SHOWN = "\0", "\ufffd"


def storable(args: Args) -> Args:
    """The arguments with U+FFFD in place of each U+0000 in a text: not every database stores that character in a text.

    Every engine passes its arguments through here, so titles, previews, drafts, summaries and searches are treated alike.
    Messages are stored as JSON bytes and keep the character.
    """
    for value in args.values() if isinstance(args, dict) else args:
        if value.__class__ is str and NUL in value:
            return _without_nul(args)
    return args


def _without_nul(args: Args) -> Args:
    if isinstance(args, Mapping):
        return {name: value.replace(NUL, NUL_SHOWN) if isinstance(value, str) else value for name, value in args.items()}
    return tuple(value.replace(NUL, NUL_SHOWN) if isinstance(value, str) else value for value in args)


class Connection(Protocol):
    """One connection to a database, within the transaction of the work that it was handed to."""

    @property
    def search(self) -> SearchIndex: ...

    def fetch(self, sql: str, args: Args = (), /) -> list[Row]:
        """All rows of a query, or of a statement with RETURNING."""

    def execute(self, sql: str, args: Args = (), /) -> int:
        """Returns the number of rows inserted, updated or deleted. `ConstraintFailed` when a constraint forbids it."""

    def many(self, sql: str, rows: Iterable[Sequence[Any]], /) -> None:
        """Runs one statement for each row of arguments."""

    def add_together(
        self,
        carried: "Sequence[SessionWrite]",
        prepared: "Sequence[PreparedWrite]",
        entry: bytes | None,
        node_id: int,
        again: "Callable[[Connection], None]",
        /,
    ) -> "AddedTogether | None":
        """The writes of a commit, if the engine can add them at once; None if it cannot, and nothing was added.

        An engine that had to take back the whole work to say so runs `again`, which repeats the work so far.
        """


Work = Callable[[Connection], T]


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """One step of overwriting free space. `next` is where the following step begins, None at the end."""

    next: int | None
    pages: int


class Database(Protocol):
    """A database engine. Work waits in the turn of `tenant_id`; None is the server itself."""

    @property
    def tenant_id(self) -> TenantId | None: ...

    @property
    def node_id(self) -> int:
        """The number of this process among those that share the database; 0 for a server that has it alone."""

    @property
    def waiting(self) -> int:
        """Jobs that no connection has taken yet."""

    def of(self, tenant_id: TenantId | None, /) -> "Database":
        """The same database for the work of one tenant. Tenants are served in turn."""

    async def write(self, work: Work[T], /) -> T:
        """Runs the work in a transaction and returns when it is durable. A failure leaves nothing behind."""

    async def read(self, work: Work[T], /, *, heavy: bool = False, unhurried: bool = False) -> T:
        """Runs the work on a read-only connection, which sees every write that was acknowledged before.

        `heavy` marks work that may take long: it delays no light work, and `QueryTimeout` ends it after a while. `unhurried`
        work is heavy without a time limit: background work that reads all data of a tenant.
        """

    async def describe(self) -> "DatabaseState":
        """The engine, its version, and how far its standbys are behind."""

    async def size_bytes(self) -> int:
        """The bytes that the whole database takes, as the engine knows them without reading it."""

    async def scrub(self, first: int, /) -> Scrubbed | None:
        """Overwrites deleted data in some pages of the files, from page `first` on. None: try again later."""


SNAPSHOT, SNAPSHOT_END = "SAVEPOINT snapshot", "RELEASE SAVEPOINT snapshot"


@contextmanager
def snapshot(connection: Connection) -> Generator[None]:
    """All queries of the block see one state of the database."""
    connection.execute(SNAPSHOT)
    try:
        yield
    finally:
        connection.execute(SNAPSHOT_END)
