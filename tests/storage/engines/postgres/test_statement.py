import pytest

from agentvm.storage.engines.postgres.statement import translate
from agentvm.storage.sql import dialect


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT a FROM t WHERE b = ? AND c = ?", "SELECT a FROM t WHERE b = $1 AND c = $2"),
        ("SELECT a FROM t WHERE b = ?2 AND c = ?1 OR d = ?2", "SELECT a FROM t WHERE b = $2 AND c = $1 OR d = $2"),
        ("SELECT a FROM t WHERE b = :x AND c = :y2 OR d = :x", "SELECT a FROM t WHERE b = $1 AND c = $2 OR d = $1"),
        ("SELECT '?', ':name', 'it''s :x', CAST(? AS BIGINT)", "SELECT '?', ':name', 'it''s :x', CAST($1 AS BIGINT)"),
        (f"SELECT 1 FROM a {dialect.ORDERED_JOIN} b ON a.x = b.x", "SELECT 1 FROM a JOIN b ON a.x = b.x"),
        (dialect.items_of("?"), "SELECT value FROM avm_items($1)"),
        (dialect.contains_folded("title", "?"), "strpos(avm_casefold(title), $1) > 0"),
    ],
)
def test_a_text_is_said_in_postgresqls_words(sql: str, text: str) -> None:
    assert translate(sql).text == text


def test_arguments_come_in_the_order_of_the_text_and_truth_is_a_number() -> None:
    named = translate("UPDATE t SET a = :first WHERE b = :second AND c = :first")
    assert named.arguments({"second": "s", "unused": 1, "first": True}) == [1, "s"]
    assert translate("SELECT ?, ?").arguments((False, None)) == [0, None]


def test_days_are_those_of_utc() -> None:
    assert "AT TIME ZONE 'UTC'" in translate(f"SELECT {dialect.DAY} FROM ledger").text
