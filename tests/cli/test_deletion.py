from agentvm.cli.deletion import describe_owned

NOTHING = dict.fromkeys(("sessions", "messages", "attachments", "resources", "users", "keys", "secrets", "bytes"), 0)


def test_what_goes_is_said_in_words() -> None:
    owned = {**NOTHING, "containers": ["user-alice"], "sessions": 1, "messages": 1200, "keys": 2, "bytes": 34567}
    assert describe_owned(owned) == "1 session, 1,200 messages, 2 keys (34,567 bytes)"


def test_nothing_is_said_to_be_nothing_and_what_stays_is_named() -> None:
    assert describe_owned(NOTHING) == "no data"
    kept = describe_owned({**NOTHING, "resources": 3, "keptResources": 1})
    assert kept == "3 resources; 1 of the resources are kept for other tenants that use them"
