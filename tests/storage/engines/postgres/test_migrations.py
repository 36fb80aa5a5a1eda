import re
from collections.abc import Iterator

import apsw
import pytest

from agentvm.errors import MigrationUnknown
from agentvm.storage.engines.postgres.connection import Raw, connect
from agentvm.storage.engines.postgres.migrations import load_migrations, migrate
from agentvm.storage.engines.sqlite import migrations as sqlite_migrations

# The search index of each engine, and tables of the engines themselves.
OWN = re.compile(
    r"sqlite_|(message|resource|knowledge)_fts|(message|knowledge)_words|resource_texts|agentvm_(schema|server_key|commits)"
)
DIFFERENT = {("knowledge_signs", "signs"): "bit varying"}
"""Columns whose type only one engine has: PostgreSQL counts the bits that two rows share."""
TYPES = {"INTEGER": "bigint", "TEXT": "text", "BLOB": "bytea", "REAL": "double precision"}


@pytest.fixture
def raw(database_url: str) -> Iterator[Raw]:
    with connect(database_url) as opened:
        yield opened


def sqlite_columns(connection: apsw.Connection) -> dict[str, dict[str, tuple[str, bool]]]:
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return {
        table: {
            name: (DIFFERENT.get((str(table), str(name)), TYPES[kind]), bool(required) or bool(key))
            for _, name, kind, required, _, key, _ in connection.execute(f"PRAGMA table_xinfo({table})")
        }
        for table in tables
        if not OWN.match(str(table))
    }


def postgres_columns(raw: Raw) -> dict[str, dict[str, tuple[str, bool]]]:
    rows = raw.execute(
        "SELECT table_name, column_name, data_type, is_nullable = 'NO' FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name NOT IN "
        "(SELECT table_name FROM information_schema.views WHERE table_schema = 'public')"
    )
    tables: dict[str, dict[str, tuple[str, bool]]] = {}
    for table, column, kind, required in rows:
        if not OWN.match(table):
            tables.setdefault(table, {})[column] = (kind, bool(required))
    return tables


def test_both_engines_have_the_same_tables_columns_and_version(raw: Raw) -> None:
    migrations = sqlite_migrations.load_migrations()
    sqlite = apsw.Connection(":memory:")
    sqlite_migrations.migrate(sqlite, migrations)
    assert postgres_columns(raw) == sqlite_columns(sqlite)
    assert load_migrations()[-1][0] == len(migrations)


def test_both_engines_have_the_same_indexes_views_and_triggers(raw: Raw) -> None:
    sqlite = apsw.Connection(":memory:")
    sqlite_migrations.migrate(sqlite, sqlite_migrations.load_migrations())
    asked = "SELECT name FROM sqlite_schema WHERE type IN ('index', 'view', 'trigger') AND sql IS NOT NULL"
    theirs = raw.execute(
        "SELECT indexname FROM pg_indexes WHERE schemaname = 'public' UNION SELECT viewname FROM pg_views "
        "UNION SELECT tgname FROM pg_trigger"
    )
    assert {name for (name,) in sqlite.execute(asked)} - {name for (name,) in theirs} == set()


def test_migrating_again_changes_nothing_and_a_newer_database_is_left_alone(raw: Raw) -> None:
    before = postgres_columns(raw)
    migrate(raw, load_migrations())
    assert postgres_columns(raw) == before
    raw.execute("INSERT INTO agentvm_schema (version) VALUES (9999)")
    with pytest.raises(MigrationUnknown, match="version 9999"):
        migrate(raw, load_migrations())
