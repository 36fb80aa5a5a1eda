"""No statement changes more rows than one commit may: it names one row by a unique key, or it has a LIMIT.

The unique keys are those of the schema. A statement that is bounded by something else is listed here with the reason.
"""

import re
from contextlib import closing

import apsw
import pytest
from tests.storage.sql.test_portable import ROOT, flat, literals

from agentvm.storage.engines.sqlite.migrations import load_migrations, migrate

CHANGE = re.compile(r"\s*(?:UPDATE|DELETE FROM)\s+(\w+|\{\w*\})(?:\s+AS\s+\w+)?\b(.*)", re.S)

EXCUSED = {
    "UPDATE asked SET container_id": "calls that were asked and not answered: no more than run at a time",
    "UPDATE erasures SET journal_entry = 0": "erasures that wait for the journal",
    "UPDATE sessions AS s SET deleted_at": "the sessions that the caller lists, a hundred at most",
    "UPDATE sessions SET runner = ?1 WHERE {} AND runner IS NULL AND tenant_id ||": "the sessions of one commit, by their ids",
    "UPDATE sessions SET runner = NULL WHERE {} AND runner = ?1 AND tail_of": "the sessions of one commit, by their ids",
    "UPDATE sessions SET deleted_at = NULL WHERE tenant_id": "the sessions that the caller lists, a hundred at most",
    "UPDATE sessions SET deleted_at = {} WHERE (tenant_id, session_id)": "the default session of one image",
    "DELETE FROM log WHERE session_key = ? AND last_seq <=": "the last chunk: slices have dropped those before it",
    "DELETE FROM drafts WHERE session_key = :key": "the drafts of one default session that nobody has used for long",
    "DELETE FROM summaries WHERE session_key = ? AND last": "the summaries of one session",
    "DELETE FROM readers WHERE tenant_id = ? AND client_id": "the sessions that one client reads",
    "DELETE FROM file_changes WHERE session_key = ?1 AND position <": "the files that one call has changed",
    "DELETE FROM file_changes WHERE session_key = ? AND position = ? AND blob_key IS NULL": "the files of one call",
    "DELETE FROM file_changes WHERE session_key = ? AND path = ? AND position": "the earlier states of one file",
    "DELETE FROM alias_members WHERE alias_key = ?": "the metadata of one thread",
    "UPDATE file_changes SET position = 0": "the files that one call has changed",
    "DELETE FROM program_calls WHERE session_key = ? AND turn_id = ?": "the calls of one turn's programs",
    "DELETE FROM feedback WHERE turn_id = ?2 AND author = ?3": "the rating of one turn by one person",
    "DELETE FROM search_backlog": "a table of one row",
    "UPDATE search_backlog": "a table of one row",
    "DELETE FROM resource_words": "the words of one resource, which has a bounded text",
    "DELETE FROM resource_tags WHERE resource_key = ?": "the tags of one resource",
    "DELETE FROM image_refs WHERE position": "the lock of one image",
    "DELETE FROM mcp_connections": "the connections of one user, some hundreds at most",
    "DELETE FROM secret_grants": "the grants of one tenant, a thousand at most",
    "UPDATE sessions {}": "one session of an import",
    "UPDATE sessions SET deleted_at = {} WHERE root_turn": "the sub-agents of one turn, which are bounded",
    "DELETE FROM memories WHERE {} AND memory_id": "one memory of one container",
    "DELETE FROM memories WHERE (tenant_id, container_id, session_id)": "memories of one container, 200 at most",
    "DELETE FROM node_asks": "requests between nodes, which are forgotten after seconds",
    "UPDATE sessions SET runner = 0": "turns that ran when a server without a cluster ended; once, before nodes serve",
    "UPDATE sessions SET tail_of = coalesce": "the sessions that the caller lists, fifty at most",
    "UPDATE sessions SET tail_of = NULL WHERE runner": "the sessions that the caller lists, fifty at most",
    "DELETE FROM node_beats": "the nodes of one cluster",
    "DELETE FROM nodes": "the nodes of one cluster",
    "DELETE FROM runs WHERE tenant_id = ? AND source_id": "the last runs of one schedule, which are bounded",
    "DELETE FROM secrets WHERE tenant_id = ? AND name LIKE": "the keys of one image, one for each provider",
    "UPDATE arriving_messages {}": "one session of an import",
    "DELETE FROM erasures WHERE tenant_id = ? AND target": "the one erasure of a target, which the new one replaces",
    "UPDATE collections SET collection_id": "the collections of one tenant, a thousand at most",
    "UPDATE collection_documents SET added_in = ? WHERE collection_key": "the documents of one imported collection",
    "UPDATE collection_documents SET removed_in": "the one document of that name in the newest revision",
}


def unique_keys() -> dict[str, list[set[str]]]:
    with closing(apsw.Connection(":memory:")) as connection:
        migrate(connection, load_migrations())
        keys: dict[str, list[set[str]]] = {}
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        for (table,) in tables:
            columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
            keys[str(table)] = [{str(name) for _, name, *_, is_key in columns if is_key}]
            for _, index, is_unique, *_ in connection.execute(f"PRAGMA index_list({table})").fetchall():
                if is_unique:
                    named = connection.execute(f"PRAGMA index_info({index})").fetchall()
                    keys[str(table)].append({str(name) for *_, name in named})
        return {table: [key for key in found if key] for table, found in keys.items()}


def is_bounded(sql: str, keys: dict[str, list[set[str]]]) -> bool:
    change = CHANGE.match(sql)
    if change is None or re.search(r"\bLIMIT\b", sql):
        return True
    table, rest = change.groups()
    where = flat(rest.partition("WHERE")[2])
    named = set(re.findall(r"(\w+)\s*=\s*(?:[?:]|$|\n|AND)", f"{where}\n"))
    return any(key <= named for key in keys.get(table, [])) or table in {"message_fts", "resource_fts"}


def unbounded() -> list[str]:
    keys = unique_keys()
    return [
        " ".join(sql.split())
        for path in sorted(ROOT.rglob("*.py"))
        for _, sql in literals(path.read_text())
        if not is_bounded(sql, keys)
    ]


def test_every_change_names_one_row_or_has_a_limit_or_a_reason() -> None:
    assert [sql for sql in unbounded() if not sql.startswith(tuple(EXCUSED))] == []


def test_every_excuse_is_needed() -> None:
    found = unbounded()
    assert [excuse for excuse in EXCUSED if not any(sql.startswith(excuse) for sql in found)] == []


@pytest.mark.parametrize(
    ("sql", "bounded"),
    [
        ("DELETE FROM api_keys WHERE tenant_id = ? AND user_id = ?", False),
        ("DELETE FROM api_keys WHERE tenant_id = ? AND key_id = ?", True),
        ("UPDATE sessions SET tenant_id = ? WHERE tenant_id = ?", False),
        ("UPDATE sessions SET title = ? WHERE tenant_id = ?1 AND session_id = ?2 AND deleted_at IS NULL", True),
        ("DELETE FROM turns WHERE position IN (SELECT position FROM turns WHERE session_key = ? LIMIT ?)", True),
        ("DELETE FROM attachments WHERE tenant_id = ?", False),
    ],
)
def test_a_planted_statement_is_judged(sql: str, bounded: bool) -> None:
    assert is_bounded(sql, unique_keys()) is bounded
