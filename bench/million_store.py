"""Million store — fills a data directory with very many users: a container, an image and a session each, and talks of some.

Every tenth user has three sessions and twenty messages, searchable as those of a live server; the others have said nothing. The
rows are copies of those that a real server has written for one user, so that a new column is never forgotten.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from agentvm.model.ids import ContainerId, MessageId, TenantId
from agentvm.model.message import UserMessage, encode_message
from agentvm.storage.engine import DATABASE
from agentvm.storage.sql.sessions.index import key_of, words_of

TENANT = TenantId("default")
TALKER_STEP_MIN = 10
"""One user of so many has talked."""
SESSIONS_MAX = 3
MESSAGES_MAX = 20
SLICE_MAX = 50_000
TOPICS = (
    "weather in the mountains",
    "a recipe with rice",
    "how to write a letter",
    "明天的天气怎么样",
    "the price of tea",
    "学习编程的方法",
)


def fill(data_dir: Path, users: int) -> int:
    """Adds `users` copies of the only user that is there; returns the number of messages."""
    database = apsw.Connection(str(data_dir / DATABASE))
    database.execute("PRAGMA synchronous = OFF")
    database.execute(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT ?) SELECT i FROM n",
        (users,),
    )
    _copy(database, "containers", {"container_id"}, "1")
    _copy(database, "images", {"container_id", "image_id", "session_id"}, "1")
    _copy(database, "sessions", {"container_id", "image_id", "session_id"}, "1")
    for more in range(1, SESSIONS_MAX):
        _copy(database, "sessions", {"container_id", "image_id", "session_id"}, f"i % {TALKER_STEP_MIN} = 0", f"'-m{more}'")
    messages = _talk(database)
    # As in a database that has grown: else the server would merge the index for minutes, beside whatever is measured.
    database.execute("INSERT INTO message_fts (message_fts) VALUES ('optimize')")
    database.close()
    return messages


def _copy(database: apsw.Connection, kind: str, named: set[str], which: str, suffix: str = "''") -> None:
    """Copies the first row of a table for each user; a further session has a `suffix` to its own name only."""
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({kind})") if not row[5]]

    def value(column: str) -> str:
        return f"{column} || '-' || i" + (f" || {suffix}" if column == "session_id" else "") if column in named else column

    copied = ", ".join(map(value, columns))
    first = f"(SELECT * FROM {kind} ORDER BY rowid LIMIT 1)"
    database.execute(f"INSERT INTO {kind} ({', '.join(columns)}) SELECT {copied} FROM {first}, n WHERE {which}")


def _talk(database: apsw.Connection) -> int:
    sessions: list[Any] = database.execute(
        "SELECT session_key, container_id FROM sessions WHERE session_id LIKE '%-m_'"
    ).fetchall()
    newest: list[Any] = database.execute("SELECT coalesce(max(position), 0) FROM all_messages").fetchall()
    first = newest[0][0] + 1
    count = 0
    for start in range(0, len(sessions), SLICE_MAX):
        rows = list(_said(sessions[start : start + SLICE_MAX], first + count))
        with database:
            database.executemany("INSERT INTO all_messages VALUES (?, ?, ?, ?, NULL)", [row[:4] for row in rows])
            facts = [(position, key, position) for position, key, _, _, _ in rows]
            database.executemany("INSERT INTO message_facts VALUES (?, ?, ?, 'user', NULL)", facts)
            words = [(position, text) for position, _, _, _, text in rows]
            database.executemany("INSERT INTO message_fts (rowid, text) VALUES (?, ?)", words)
        count += len(rows)
    return count


def _said(sessions: list[tuple[int, str]], position: int) -> Iterator[tuple[int, int, str, bytes, str]]:
    each = MESSAGES_MAX // (SESSIONS_MAX - 1)
    for session_key, container_id in sessions:
        key = key_of(TENANT, ContainerId(container_id))
        for place in range(each):
            text = f"{TOPICS[(session_key + place) % len(TOPICS)]}, question {place} of {container_id}"
            message = UserMessage(id=MessageId(f"m{place}"), timestamp=position, role="user", content=text)
            yield position, session_key, message.id, encode_message(message), words_of(key, text)
            position += 1
