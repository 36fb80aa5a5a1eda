"""Results do not depend on how PostgreSQL joins: its choice follows from statistics, which change while a server runs."""

import psycopg
import pytest
from tests.conformance.resources import check_a_closure_has_every_version_once_and_a_bound as check_closure

from agentvm.storage.engines.postgres.opening import open_store


@pytest.mark.parametrize("refused", ["nestloop", "hashjoin", "mergejoin"])
async def test_a_bounded_closure_hangs_together_however_it_is_joined(database_url: str, refused: str) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET enable_{refused} = off")
    async with open_store(database_url, readers=1) as store:
        await check_closure(store)
