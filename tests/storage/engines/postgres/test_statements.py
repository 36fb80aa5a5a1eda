"""Every statement of the store that is written out in a module is understood by PostgreSQL."""

import importlib
import pkgutil
import re
from collections.abc import Iterator

import psycopg

import agentvm.storage.sql
from agentvm.storage.engines.postgres.connection import connect
from agentvm.storage.engines.postgres.statement import translate

STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b")
OPEN = re.compile(r"\b(WHERE|AND|FROM|IN|VALUES)\s*$|^INSERT INTO \w+ \([^)]*\)$")
TYPED_BY_ITS_ARGUMENT = ("inconsistent types deduced for parameter", "operator does not exist: integer <= text")
"""Faults of a text without its arguments: a number comes with its type."""


def statements() -> Iterator[tuple[str, str]]:
    for module in pkgutil.walk_packages(agentvm.storage.sql.__path__, "agentvm.storage.sql."):
        for name, value in vars(importlib.import_module(module.name)).items():
            texts = value if isinstance(value, tuple) else (value,)
            for text in texts:
                # A text with braces, or without an end, is a form that others fill in.
                if isinstance(text, str) and STATEMENT.match(text) and "{" not in text and not OPEN.search(text):
                    yield f"{module.name}.{name}", text


def test_every_statement_can_be_prepared(database_url: str) -> None:
    found, faults = 0, []
    with connect(database_url) as raw:
        for name, text in statements():
            found += 1
            try:
                raw.execute(f"PREPARE statement AS {translate(text).text}")
                raw.execute("DEALLOCATE statement")
            except psycopg.Error as error:
                if not any(known in str(error) for known in TYPED_BY_ITS_ARGUMENT):
                    faults.append(f"{name}: {error.diag.message_primary}")
    assert found > 300
    assert faults == []
