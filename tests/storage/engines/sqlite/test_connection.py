from contextlib import closing

import apsw
import pytest

from agentvm.errors import ConstraintFailed
from agentvm.storage.engines.sqlite.connection import SqliteConnection


def test_a_statement_returns_the_number_of_rows_it_changed_and_a_query_its_rows() -> None:
    with closing(apsw.Connection(":memory:")) as raw:
        connection = SqliteConnection(raw)
        connection.execute("CREATE TABLE a (x INTEGER PRIMARY KEY, y TEXT)")
        connection.many("INSERT INTO a (y) VALUES (?)", [("one",), ("two",)])
        assert connection.execute("UPDATE a SET y = 'three' WHERE x > ?", (0,)) == 2
        assert connection.execute("DELETE FROM a WHERE x = :x", {"x": 7}) == 0
        assert connection.fetch("INSERT INTO a (y) VALUES (?) RETURNING x", ("four",)) == [(3,)]


def test_a_constraint_is_an_error_of_the_tree_whichever_method_meets_it() -> None:
    with closing(apsw.Connection(":memory:")) as raw:
        connection = SqliteConnection(raw)
        connection.execute("CREATE TABLE a (x INTEGER PRIMARY KEY)")
        statement = "INSERT INTO a VALUES (1)"
        connection.execute(statement)
        for work in (connection.fetch, connection.execute):
            with pytest.raises(ConstraintFailed):
                work(statement)
        with pytest.raises(ConstraintFailed):
            connection.many(statement, [()])


def test_titles_are_folded_by_the_rules_of_unicode() -> None:
    with closing(apsw.Connection(":memory:")) as raw:
        connection = SqliteConnection(raw)
        assert connection.fetch("SELECT casefold('STRASSE Ä'), casefold(NULL)") == [("strasse ä", None)]
