import random
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from agentvm.storage.engines.sqlite import slack
from agentvm.storage.engines.sqlite.slack import clean_pages, fold, free_parts
from agentvm.storage.sql.connection import Scrubbed

PLANTED = b"planted"


def opened(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    return connection


def churn(connection: apsw.Connection) -> None:
    """Rows of two owners between each other, in pages that are split and joined again and again."""
    chance = random.Random(3)
    connection.execute("CREATE TABLE said (place INTEGER PRIMARY KEY, owner INTEGER, body BLOB)")
    places = list(range(2_000))
    chance.shuffle(places)
    for place in places:
        body = (PLANTED if place % 2 else b"nearby") + bytes(str(place), "ascii") * chance.choice((3, 40, 900))
        connection.execute("INSERT INTO said VALUES (?, ?, ?)", (place, place % 2, body))
    chance.shuffle(places)
    for place in places:
        if place % 2:
            connection.execute("DELETE FROM said WHERE place = ?", (place,))


def clean_all(connection: apsw.Connection) -> int:
    page, pages = 1, 0
    while True:
        done = clean_pages(connection, page)
        assert done is not None
        pages += done.pages
        if done.next is None:
            return pages
        page = done.next


@pytest.mark.parametrize("overwrites", [True, False])
def test_nothing_of_what_was_deleted_is_left_and_nothing_else_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrites: bool
) -> None:
    monkeypatch.setattr(slack, "PAGES_MAX", 7)
    path = tmp_path / "a.db"
    with closing(opened(path)) as connection:
        connection.pragma("secure_delete", overwrites)
        churn(connection)
        before = connection.execute("SELECT place, body FROM said").fetchall()
        fold(connection)
        # SQLite alone leaves copies in what is free of the pages.
        assert path.read_bytes().count(PLANTED) > 0
        assert clean_all(connection) > 0
        assert path.read_bytes().count(PLANTED) == 0
        assert connection.execute("SELECT place, body FROM said").fetchall() == before
        assert connection.pragma("integrity_check") == "ok"
        # Nothing comes back with what is written next, though the connection knew the pages before.
        connection.execute("UPDATE said SET owner = 5")
        assert fold(connection)
        assert path.read_bytes().count(PLANTED) == 0
        assert connection.pragma("integrity_check") == "ok"


def test_a_file_that_is_clean_is_left_as_it_is(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "a.db")) as connection:
        churn(connection)
        clean_all(connection)
        assert clean_all(connection) == 0


def test_it_waits_for_those_who_read_an_older_state(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "a.db")) as connection, closing(apsw.Connection(str(tmp_path / "a.db"))) as reader:
        churn(connection)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM said").fetchall()
        connection.execute("UPDATE said SET owner = 5")
        assert fold(connection) is False
        assert clean_pages(connection, 1) is None
        reader.execute("COMMIT")
        assert clean_pages(connection, 1) is not None


def test_a_database_in_memory_has_no_file_to_clean() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        assert clean_pages(connection, 1) == Scrubbed(None, 0)


def test_a_file_too_large_to_be_understood_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack, "PAGES_KNOWN_MAX", 3)
    with closing(opened(tmp_path / "a.db")) as connection:
        churn(connection)
        assert clean_pages(connection, 1) == Scrubbed(None, 0)


@pytest.mark.parametrize(
    "page",
    [
        bytes(4096),
        b"\x00\x00\x00\x09" + b"x" * 4092,
        # The header of a tree's page whose numbers do not hold together.
        b"\x0d" + b"\x00\x00" + b"\xff\xff" + b"\x00\x10" + b"x" * 4089,
    ],
)
def test_what_is_no_page_of_a_tree_has_no_free_parts(page: bytes) -> None:
    assert list(free_parts(page, 4096)) == []


def test_a_chain_of_free_blocks_that_leads_back_is_not_followed_for_ever() -> None:
    page = bytearray(4096)
    page[0:8] = b"\x0d" + (100).to_bytes(2, "big") + b"\x00\x00" + (90).to_bytes(2, "big") + b"\x00"
    page[100:104] = (100).to_bytes(2, "big") + (8).to_bytes(2, "big")
    assert list(free_parts(bytes(page), 4096)) == [(8, 90), (104, 108)]
