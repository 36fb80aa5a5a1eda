from pathlib import Path

import psycopg
import pytest

from tests.provision import Unavailable
from tests.provision.node import npm_install
from tests.provision.postgres import OLDEST, Postgres


def test_the_server_answers_and_is_safe_against_crashes(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SHOW fsync").fetchall() == [("on",)]
        assert connection.execute("SELECT current_user").fetchall() == [("avm",)]


@pytest.mark.parametrize("older_postgres", [OLDEST], indirect=True)
def test_the_oldest_server_is_the_oldest(older_postgres: Postgres) -> None:
    with psycopg.connect(older_postgres.url()) as connection:
        assert connection.info.server_version // 10_000 == OLDEST


def test_a_package_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"dependencies": {"@agentvm/none": "1.0.0"}}')
    (tmp_path / "package-lock.json").write_text('{"lockfileVersion": 3, "packages": {}}')
    with pytest.raises(Unavailable, match="npm ci failed"):
        npm_install(tmp_path, tmp_path / "installed")
