from pathlib import Path

import anyio
import apsw
from tests.conformance import summaries as suite
from tests.conformance.records import HOME, SESSION, image
from tests.conformance.store import ACME
from tests.conformance.summaries import exchanges, filled, sum_up

from agentvm.storage.engine import open_store
from agentvm.storage.sql.sessions.summaries import _NEWEST_FIRST, _OLDEST_FIRST


async def test_a_summary_survives_and_only_what_it_does_not_cover_is_read(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    with anyio.fail_after(60):
        async with open_store(path) as store:
            assert await sum_up(await filled(store, exchanges(*range(50))), "s1", 48)
        connection = apsw.Connection(str(path))
        # A body that nobody can read: it would be seen if it were looked at.
        connection.execute("UPDATE all_messages SET body = x'ff' WHERE position < (SELECT next FROM summaries)")
        connection.close()
        async with open_store(path) as store:
            log = store.tenant(ACME).container(HOME).log(SESSION)
            assert await suite.told(log) == ("s1", ["q48", "a48", "q49", "a49"])


async def test_summaries_go_with_their_session(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    with anyio.fail_after(60):
        async with open_store(path) as store:
            assert await sum_up(await filled(store, exchanges(1, 2)), "s1", 1)
            assert await store.tenant(ACME).container(HOME).delete_image(image().image_id)
        assert list(apsw.Connection(str(path)).execute("SELECT count(*) FROM summaries")) == [(0,)]


async def test_a_session_is_recalled_without_a_look_at_the_messages_of_others(tmp_path: Path) -> None:
    path = tmp_path / "agentvm.db"
    with anyio.fail_after(60):
        async with open_store(path) as store:
            await filled(store, exchanges(*range(50)))
        connection = apsw.Connection(str(path))
        # With statistics SQLite would begin with the table that it takes for the smaller one.
        connection.execute("ANALYZE")
        connection.close()
        connection = apsw.Connection(str(path))
        for query in (_NEWEST_FIRST, _OLDEST_FIRST):
            values = dict.fromkeys(
                ("tenant", "container", "session", "summary", "current", "beyond", "max_bytes", "current_bytes")
            )
            plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values)]
            assert not [step for step in plan if step.startswith("SCAN all_messages")]
        connection.close()
