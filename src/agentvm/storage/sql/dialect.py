"""Dialect — SQL that differs between databases, under names of its own. Statements take it from here.

The spelling is SQLite's. Another engine accepts the same texts: by a function of the same name in its schema (`json_each`,
`casefold`, `strftime`), or by rewriting the text once when it prepares a statement (`ORDERED_JOIN`). The search index is apart,
in `search_index.py`.
"""

ORDERED_JOIN = "CROSS JOIN"
"""A join whose left side is looked up first: a hint for SQLite's planner, a plain JOIN elsewhere."""

ROWS_MAX = 2**62
"""The limit of a query that skips rows and takes all others."""

HOUR = "strftime('%Y-%m-%dT%H:00Z', at / 1000, 'unixepoch')"
DAY = "strftime('%Y-%m-%d', at / 1000, 'unixepoch')"
MONTH = "strftime('%Y-%m', at / 1000, 'unixepoch')"
"""The hour, day and month in UTC of a column `at` in milliseconds."""

DATABASE_NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
"""The time of the database's own clock in milliseconds, not that of the transaction's beginning."""

SKIP_LOCKED = "/* skip locked */"
"""Ends a query for rows that are about to be updated: rows which another transaction is updating are left out."""


def items_of(parameter: str) -> str:
    """A query for the texts of a JSON array that is passed as one parameter."""
    return f"SELECT value FROM json_each({parameter})"


def numbers_of(parameter: str) -> str:
    """A query for the numbers of a JSON array that is passed as one parameter."""
    return f"SELECT CAST(value AS BIGINT) FROM json_each({parameter})"


def rows_as_json(columns: str) -> str:
    """An aggregate: the rows of a query as one JSON array of arrays."""
    return f"json_group_array(json_array({columns}))"


def contains_folded(column: str, parameter: str) -> str:
    """A condition: the text of the column contains the parameter, which is case-folded, in any case."""
    return f"instr(casefold({column}), {parameter}) > 0"


def contains(column: str, parameter: str) -> str:
    """A condition: the text of the column contains the parameter."""
    return f"instr({column}, {parameter}) > 0"


def greater(first: str, second: str) -> str:
    """The greater of two values, or the second if one is NULL. Standard SQL, unlike `max` of two values."""
    return f"CASE WHEN {first} > {second} THEN {first} ELSE {second} END"


def lesser(first: str, second: str) -> str:
    """The lesser of two values, or the second if one is NULL."""
    return f"CASE WHEN {first} < {second} THEN {first} ELSE {second} END"


def total(expression: str) -> str:
    """The sum of an expression over rows, 0 without any. Not every engine gives a whole number for a sum of whole numbers."""
    return f"CAST(coalesce(sum({expression}), 0) AS BIGINT)"
