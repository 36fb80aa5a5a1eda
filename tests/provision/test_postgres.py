import psycopg

from tests.provision.postgres import Postgres


def test_the_server_answers_and_is_safe_against_crashes(postgres: Postgres) -> None:
    with psycopg.connect(postgres.url()) as connection:
        assert connection.execute("SHOW fsync").fetchall() == [("on",)]
        assert connection.execute("SELECT current_user").fetchall() == [("avm",)]
