"""Every statement of the store is standard SQL, but for the dialect and the search index.

The same text runs on every engine. A construct that only SQLite knows belongs to `dialect.py` or `search_index.py`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import agentvm.storage.sql

ROOT = Path(agentvm.storage.sql.__file__).parent
ENGINE_SPECIFIC = {"dialect.py", "search_index.py"}

STATEMENT = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE FROM|ORDER BY|LIMIT|WHERE|JOIN|EXISTS)\b|\w\.\w+ (=|<|>|IS|IN)\b")

FORBIDDEN = {
    "conflict clause": r"\b(INSERT|UPDATE) OR \w+",
    "iif": r"\biif\s*\(",
    "JSON function": r"\bjson\w*\s*\(",
    "date function": r"\b(strftime|date|datetime|julianday|unixepoch)\s*\(",
    "SQLite function": (
        r"\b(zeroblob|randomblob|total_changes|changes|last_insert_rowid|instr|ifnull|group_concat|typeof|printf|likely|casefold)"
        r"\s*\("
    ),
    "rowid": r"\browid\b",
    "BLOB literal": r"(?<!\w)[xX]'",
    "negative limit": r"\bLIMIT\s+-\d",
    "IS with a value": r"\bIS\s+(NOT\s+)?([?:\d-]|\{\}(?!NULL))",
    "join hint": r"\bCROSS JOIN\b",
    "search": r"\bMATCH\b|\bbm25\b|\w_fts\b|\bGLOB\b",
    "schema table": r"\bsqlite_|\bPRAGMA\b|\bATTACH\b|\bVACUUM\b",
    "table as a list": r"\bIN\s+(?!\(|EXISTS)[a-z_]+\b",
    "number as a condition": (
        r"\b(WHERE|AND|OR)\s+\(?(\w+\.)?(is_open|floating|is_pinned|estimated|prepaid)\s*(\)|$|AND\b|OR\b)"
    ),
    "parameter without a type": r"[?:]\w+\s+IS\s+(NOT\s+)?NULL",
    "number as a condition (parameter)": r"\b(WHERE|AND|OR)\s+:\w+\s*(\)|$|AND\b|OR\b|ORDER\b)",
}


def literals(text: str) -> Iterator[tuple[int, str]]:
    """The texts of a module that look like SQL, with `{}` for what is formatted into them."""
    tree = ast.parse(text)
    parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            body = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in parts:
            body = node.value
        else:
            continue
        if STATEMENT.search(body) and "—" not in body and "`" not in body:
            yield node.lineno, re.sub(r"--[^\n]*", "", body)


def offences(sql: str) -> Iterator[str]:
    for name, pattern in FORBIDDEN.items():
        if re.search(pattern, sql, re.M):
            yield name
    yield from scalar_extremes(sql)
    yield from unqualified_update(sql)
    yield from nameless_subqueries(sql)
    yield from limited_recursion(sql)


def enclosed(sql: str, start: int) -> str:
    """The text within the bracket that opens at `start`."""
    depth = 0
    for place in range(start, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[place], 0)
        if depth == 0:
            return sql[start + 1 : place]
    return sql[start + 1 :]


def flat(sql: str) -> str:
    """The text without what stands in brackets."""
    while (shorter := re.sub(r"\([^()]*\)", "", sql)) != sql:
        sql = shorter
    return sql


def scalar_extremes(sql: str) -> Iterator[str]:
    for match in re.finditer(r"\b(max|min)\(", sql):
        if "," in flat(enclosed(sql, match.end() - 1)):
            yield f"{match.group(1)} of two values"


def unqualified_update(sql: str) -> Iterator[str]:
    """Within DO UPDATE a bare column means the stored row here and is ambiguous elsewhere."""
    for update in re.findall(r"DO UPDATE\s+SET(.*?)(?:RETURNING|$)", sql, re.S):
        values = re.sub(r"(^|,)\s*\w+\s*=", r"\1", flat(re.sub(r"\w+\(", "(", update)).partition("WHERE")[0])
        wheres = update.partition("WHERE")[2]
        inner = re.findall(r"\(([^()]*)\)", update.partition("WHERE")[0])
        for word in re.findall(r"(?<![\w.:])[a-z_]+\b(?!\s*[.(])", " ".join([values, wheres, *inner])):
            yield f"{word} is not qualified in DO UPDATE"


def nameless_subqueries(sql: str) -> Iterator[str]:
    for match in re.finditer(r"\b(FROM|JOIN)\s+\((?=\s*SELECT)", sql):
        body = enclosed(sql, match.end() - 1)
        if not re.match(r"\s*AS\s+\w", sql[match.end() + len(body) + 1 :]):
            yield "subquery without a name"


def limited_recursion(sql: str) -> Iterator[str]:
    if "WITH RECURSIVE" in sql:
        for match in re.finditer(r"\bAS\s+(?:MATERIALIZED\s+)?\(", sql):
            body = flat(enclosed(sql, match.end() - 1))
            if "UNION" in body and "LIMIT" in body:
                yield "LIMIT within a recursive query"


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if path.name not in ENGINE_SPECIFIC)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_statement_is_standard_sql(path: Path) -> None:
    found = [f"{path.name}:{line}: {offence}" for line, sql in literals(path.read_text()) for offence in offences(sql)]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "INSERT OR REPLACE INTO a (x) VALUES (?)",
        "UPDATE OR IGNORE a SET x = 1",
        "SELECT iif(x, 1, 2) FROM a",
        "SELECT 1 FROM a WHERE x IN (SELECT value FROM json_each(?))",
        "SELECT strftime('%Y', at) FROM a",
        "SELECT total_changes()",
        "DELETE FROM a WHERE rowid = ?",
        "UPDATE a SET x = x'00'",
        "SELECT x FROM a LIMIT -1 OFFSET ?",
        "SELECT x FROM a WHERE y IS ?",
        "SELECT 1 FROM a CROSS JOIN b ON a.x = b.x",
        "SELECT 1 FROM message_fts WHERE message_fts MATCH ?",
        "SELECT name FROM sqlite_schema",
        "SELECT x FROM a WHERE y NOT IN waiting",
        "SELECT x FROM v WHERE v.x = 1 AND v.is_open",
        "SELECT x FROM a WHERE y = 1 AND :summary ORDER BY x",
        "SELECT x FROM a WHERE ?1 IS NULL OR x = ?1",
        "UPDATE a SET x = max(x, ?)",
        "INSERT INTO a (x) VALUES (?) ON CONFLICT (x) DO UPDATE SET y = y + excluded.y",
        "INSERT INTO a (x) VALUES (?) ON CONFLICT (x) DO UPDATE SET y = excluded.y WHERE z IS NULL",
        "SELECT x FROM (SELECT x FROM a) WHERE x > 1",
        "WITH RECURSIVE r (x) AS (SELECT 1 UNION SELECT x + 1 FROM r LIMIT 3) SELECT x FROM r",
    ],
)
def test_a_construct_that_only_sqlite_knows_is_seen(planted: str) -> None:
    assert [text for _, text in literals(repr(planted))] == [planted]
    assert list(offences(planted))


@pytest.mark.parametrize(
    "standard",
    [
        "SELECT max(x), min(coalesce(y, 0)) FROM a",
        "INSERT INTO a (x, y) VALUES (?, ?) ON CONFLICT (x) DO UPDATE SET y = a.y + excluded.y WHERE a.z IS NULL",
        "SELECT x FROM (SELECT x FROM a) AS b WHERE x IS NOT DISTINCT FROM ?",
        "WITH RECURSIVE r (x) AS (SELECT 1 UNION SELECT x + 1 FROM r) SELECT x FROM r LIMIT 3",
    ],
)
def test_standard_sql_is_no_offence(standard: str) -> None:
    assert list(offences(standard)) == []
