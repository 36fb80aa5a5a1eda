from msgspec import structs
from tests.conformance.records import session


def test_a_session_is_as_recent_as_what_was_said_in_it() -> None:
    made = session("s", now=5)
    assert made.active_at == 5
    assert structs.replace(made, last_message_at=9).active_at == 9
