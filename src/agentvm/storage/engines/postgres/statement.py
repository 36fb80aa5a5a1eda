"""Statement — the text of a query in PostgreSQL's words."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from agentvm.storage.sql import dialect
from agentvm.storage.sql.connection import Args

_TEXTS_MAX = 2048
"""Translated statements that are remembered; the store has about six hundred."""

_UTC = "to_timestamp(at / 1000) AT TIME ZONE 'UTC'"
_PHRASES = {
    dialect.HOUR: f"""to_char({_UTC}, 'YYYY-MM-DD"T"HH24:00"Z"')""",
    dialect.DAY: f"to_char({_UTC}, 'YYYY-MM-DD')",
    dialect.MONTH: f"to_char({_UTC}, 'YYYY-MM')",
    dialect.DATABASE_NOW: "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
    dialect.SKIP_LOCKED: "FOR UPDATE SKIP LOCKED",
    dialect.ORDERED_JOIN: "JOIN",
    "json_each(": "avm_items(",
    "json_group_array(": "avm_rows(",
    "json_array(": "json_build_array(",
    "instr(": "strpos(",
    "casefold(": "avm_casefold(",
}
"""Phrases of the dialect, and PostgreSQL's form of each."""

_IN_ITEMS = re.compile(r"\bIN \(SELECT value FROM json_each\(([:?]\w*)\)\)")
# An array is looked up in an index; of a query the planner does not know how few rows it has.
_ANY_ITEM = r"= ANY (ARRAY(SELECT json_array_elements_text(CAST(\1 AS json))))"
_TOKEN = re.compile(r"'(?:[^']|'')*'|\?(\d*)|(?<!:):([a-z_][a-z0-9_]*)")


class Statement(NamedTuple):
    """The text with `$1`, `$2` … for its arguments; `names` are those of the arguments if they have names."""

    text: str
    names: tuple[str, ...]

    def arguments(self, args: Args) -> list[Any]:
        """The arguments in their order. Truth values are numbers in every table."""
        values = [args[name] for name in self.names] if isinstance(args, Mapping) else args
        return [int(value) if value.__class__ is bool else value for value in values]


@lru_cache(maxsize=_TEXTS_MAX)
def translate(sql: str) -> Statement:
    sql = _IN_ITEMS.sub(_ANY_ITEM, sql)
    for phrase, translation in _PHRASES.items():
        sql = sql.replace(phrase, translation)
    names: list[str] = []
    count = 0

    def argument(match: re.Match[str]) -> str:
        nonlocal count
        number, name = match.groups()
        if name is not None:
            if name not in names:
                names.append(name)
            return f"${names.index(name) + 1}"
        if number is None:
            return match[0]
        count += 1
        return f"${number or count}"

    return Statement(_TOKEN.sub(argument, sql), tuple(names))
