"""Copying — everything that a SQLite database holds, into an empty PostgreSQL database.

Theory of operation. Both have the same tables, so rows are carried over as they are, table by table, in one transaction: a copy
that fails or is killed leaves nothing behind, and is begun again. Before the commit every table is read back, and the number of
its rows and their digest are compared with the rows read from SQLite. Only the search index is rebuilt, from exactly the
messages and resources that SQLite's has: each engine has its own.

Triggers are disabled during the copy, because they already ran when the rows were first written. Constraints do not.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
from psycopg import sql

from agentvm.errors import Conflict, NotFound, StoreFailed
from agentvm.model.message import decode_message
from agentvm.storage.base import CopiedTable
from agentvm.storage.engines.postgres.connection import PostgresConnection, Raw
from agentvm.storage.engines.postgres.database import connect_migrated
from agentvm.storage.engines.postgres.search import vectors
from agentvm.storage.engines.sqlite.backup import Progress
from agentvm.storage.engines.sqlite.migrations import distrust_schema, load_migrations
from agentvm.storage.sql.connection import Row, storable
from agentvm.storage.sql.resources.index import reindex
from agentvm.storage.sql.sessions.index import entry_of, key_of, words_of

_UNTOLD_MAX = 1_000
"""Rows between two reports of the progress."""

_TYPES = {"bigint": "int8", "text": "text", "bytea": "bytea", "double precision": "float8"}
_COLUMNS = """
SELECT c.table_name, c.column_name, c.data_type, c.is_identity = 'YES'
FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER'
ORDER BY c.table_name, c.ordinal_position
"""
_NEEDS = """
SELECT from_table.relname, to_table.relname
FROM pg_constraint AS k JOIN pg_class AS from_table ON from_table.oid = k.conrelid
JOIN pg_class AS to_table ON to_table.oid = k.confrelid
WHERE k.contype = 'f' AND NOT k.condeferrable AND from_table.relnamespace = current_schema()::regnamespace
"""
_REBUILT = ("knowledge_indexes", "knowledge_chunks", "knowledge_reads", "knowledge_signs")
"""Tables that are not copied: the first search in a knowledge base makes its index again."""
_OWN = {
    "agentvm_schema", "agentvm_server_key", "agentvm_commits", "message_words", "resource_texts", "knowledge_words",
    *_REBUILT,
}  # fmt: skip
"""Tables that only PostgreSQL has, and those that are made again."""
_THEIRS = ("sqlite_", "message_fts", "resource_fts", "knowledge_fts", *_REBUILT)

_INDEXED = """
SELECT m.position, m.body, s.tenant_id, s.container_id
FROM message_fts_docsize AS d JOIN all_messages AS m ON m.position = d.id JOIN sessions AS s USING (session_key)
"""


class _Table:
    """The name and the columns of a table, without those that are computed."""

    def __init__(self, name: str, columns: Sequence[tuple[str, str, bool]]) -> None:
        self.name = name
        self.columns = [column for column, _, _ in columns]
        self.types = [_TYPES[kind] for _, kind, _ in columns]
        self.numbered = next((column for column, _, is_numbered in columns if is_numbered), None)
        """The column that numbers the rows."""

    def statement(self, text: str) -> sql.Composed:
        return sql.SQL(text).format(
            table=sql.Identifier(self.name), columns=sql.SQL(", ").join(map(sql.Identifier, self.columns))
        )


class _Digest:
    """Counts rows and adds up their hashes."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = 0

    def add(self, row: Sequence[Any]) -> None:
        self.rows += 1
        self._sum += int.from_bytes(hashlib.sha256(msgspec.msgpack.encode(row)).digest())

    def of(self, table: str) -> CopiedTable:
        return CopiedTable(name=table, rows=self.rows, sha256=(self._sum % 2**256).to_bytes(32).hex())


def copy_from_sqlite(source: Path, url: str, progress: Progress) -> tuple[CopiedTable, ...]:
    """Copies all tables. The caller holds the lock of the data directory.

    `NotFound` without a source, `Conflict` for one of another release and for a target with data, `StoreFailed` for a database
    that cannot be read or written; then nothing was copied.
    """
    with closing(_open_source(source)) as sqlite, closing(connect_migrated(url)) as raw:
        try:
            tables = _tables(raw, sqlite)
            _refuse_filled(raw, tables)
            with raw.transaction():
                copied = _copy_all(sqlite, raw, tables, progress)
            raw.execute("ANALYZE")
        except psycopg.Error as error:
            raise StoreFailed(f"Nothing was copied: {error}") from error
        except (apsw.Error, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise StoreFailed(
                f"Nothing was copied, because {source} cannot be read: {error}. Restore a backup of it"
            ) from error
    return copied


def _open_source(path: Path) -> apsw.Connection:
    if not path.is_file():
        raise NotFound(f"There is no database in {path.parent}; name the data directory of a server with --data-dir")
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        distrust_schema(connection)
        version, newest = int(connection.pragma("user_version")), len(load_migrations())
        connection.execute("BEGIN")
    except apsw.Error as error:
        connection.close()
        raise StoreFailed(f"Cannot read the database {path}: {error}") from error
    if version != newest:
        connection.close()
        raise Conflict(
            f"The database {path} has schema version {version}, and this AgentVM copies version {newest}. "
            + ("Start this AgentVM on it once." if version < newest else "Use the newer AgentVM that wrote it.")
        )
    return connection


def _tables(raw: Raw, sqlite: apsw.Connection) -> list[_Table]:
    """The tables in an order in which no row comes before one that it refers to."""
    columns: dict[str, list[tuple[str, str, bool]]] = {}
    for table, *column in raw.execute(_COLUMNS).fetchall():
        if table not in _OWN:
            columns.setdefault(table, []).append((column[0], column[1], bool(column[2])))
    theirs = {str(name) for (name,) in sqlite.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    missing = {name for name in theirs if not name.startswith(_THEIRS)} ^ columns.keys()
    if missing:
        raise StoreFailed(f"The databases have different tables ({', '.join(sorted(missing))}): one was changed by hand")
    order: TopologicalSorter[str] = TopologicalSorter(dict.fromkeys(columns, ()))
    for table, needed in raw.execute(_NEEDS).fetchall():
        if table != needed and table in columns:
            order.add(table, needed)
    return [_Table(name, columns[name]) for name in order.static_order()]


def _refuse_filled(raw: Raw, tables: Sequence[_Table]) -> None:
    for table in tables:
        if raw.execute(table.statement("SELECT 1 FROM {table} LIMIT 1")).fetchall():
            raise Conflict(
                f"The PostgreSQL database is not empty: its table {table.name} has rows. Name one that no AgentVM has used"
            )


def _copy_all(sqlite: apsw.Connection, raw: Raw, tables: Sequence[_Table], progress: Progress) -> tuple[CopiedTable, ...]:
    raw.execute("SET CONSTRAINTS ALL DEFERRED")
    _set_triggers(raw, tables, "DISABLE")
    total = sum(_first(sqlite, f'SELECT count(*) FROM "{table.name}"') for table in tables)

    def progress_of(step: str, before: int) -> Callable[[int], None]:
        return lambda rows: progress(step, before + rows, total)

    read: list[CopiedTable] = []
    done = 0
    for table in tables:
        read.append(_copy(sqlite, raw, table, progress_of("Copying", done)))
        _continue_numbers(sqlite, raw, table)
        done += read[-1].rows
    raw.execute("SET CONSTRAINTS ALL IMMEDIATE")
    _set_triggers(raw, tables, "ENABLE")
    done = 0
    for table, there in zip(tables, read, strict=True):
        here = _read_back(raw, table, progress_of("Comparing", done))
        if here != there:
            raise StoreFailed(
                f"Nothing was copied: the table {table.name} has {there.rows} rows in SQLite and {here.rows} in PostgreSQL, "
                "and they differ. Please report this"
            )
        done += here.rows
    _index_messages(sqlite, raw, progress)
    for (resource_key,) in raw.execute("SELECT resource_key FROM resources WHERE deleted_at IS NULL").fetchall():
        reindex(PostgresConnection(raw), resource_key)
    return tuple(sorted(read, key=lambda table: table.name))


def _set_triggers(raw: Raw, tables: Iterable[_Table], state: str) -> None:
    for table in tables:
        raw.execute(table.statement(f"ALTER TABLE {{table}} {state} TRIGGER USER"))


def _copy(sqlite: apsw.Connection, raw: Raw, table: _Table, report: Callable[[int], None]) -> CopiedTable:
    digest = _Digest()
    columns = ", ".join(f'"{column}"' for column in table.columns)
    statement = table.statement("COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)")
    with raw.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types(table.types)
        for row in sqlite.execute(f'SELECT {columns} FROM "{table.name}"'):
            # Old rows may have a character that PostgreSQL does not store.
            values = storable(row)
            digest.add(values)  # type: ignore[arg-type]  # a sequence, because the row is one
            copy.write_row(values)  # type: ignore[arg-type]  # as above
            if digest.rows % _UNTOLD_MAX == 0:
                report(digest.rows)
    return digest.of(table.name)


def _read_back(raw: Raw, table: _Table, report: Callable[[int], None]) -> CopiedTable:
    digest = _Digest()
    with raw.cursor() as cursor, cursor.copy(table.statement("COPY {table} ({columns}) TO STDOUT (FORMAT BINARY)")) as copy:
        copy.set_types(table.types)
        for row in copy.rows():
            digest.add(row)
            if digest.rows % _UNTOLD_MAX == 0:
                report(digest.rows)
    return digest.of(table.name)


def _continue_numbers(sqlite: apsw.Connection, raw: Raw, table: _Table) -> None:
    """PostgreSQL continues after the last number that SQLite has given, also if its row is gone."""
    if table.numbered is None:
        return
    last = _first(sqlite, f'SELECT max("{table.numbered}") FROM "{table.name}"')
    last_number = _first(sqlite, "SELECT max(seq) FROM sqlite_sequence WHERE name = ?", (table.name,))
    if (number := max(last or 0, last_number or 0)) > 0:
        raw.execute("SELECT setval(pg_get_serial_sequence($1, $2), $3)", (f'"{table.name}"', table.numbered, number))


def _index_messages(sqlite: apsw.Connection, raw: Raw, progress: Progress) -> None:
    total = _first(sqlite, "SELECT count(*) FROM message_fts_docsize")
    with raw.cursor() as cursor, cursor.copy("COPY message_words (position, part, words) FROM STDIN") as copy:
        for number, row in enumerate(sqlite.execute(_INDEXED)):
            for entry in _words(row):
                copy.write_row(entry)
            if number % _UNTOLD_MAX == 0:
                progress("Indexing", number, total)


def _words(row: Row) -> Iterator[tuple[int, int, str]]:
    position, body, tenant_id, container_id = row
    words = words_of(key_of(tenant_id, container_id), entry_of(decode_message(body)).text)
    for part, vector in enumerate(vectors([(words.split(" "), "")])):
        yield position, part, vector


def _first(sqlite: apsw.Connection, query: str, args: Row = ()) -> Any:
    return sqlite.execute(query, args).fetchall()[0][0]
