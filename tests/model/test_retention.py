from agentvm.model.retention import DAY_MS, Retention, RetentionCutoffs


def test_archived_sessions_are_kept_as_the_others_unless_it_is_said_otherwise() -> None:
    assert Retention(session_days=2).cut(10 * DAY_MS).archived == 8 * DAY_MS
    assert Retention(session_days=2, archived_days=5).cut(10 * DAY_MS).archived == 5 * DAY_MS
    assert Retention(archived_days=5).cut(10 * DAY_MS).sessions is None


def test_by_default_only_what_was_taken_back_or_its_client_has_goes() -> None:
    found = Retention().cut(40 * DAY_MS)
    assert found == RetentionCutoffs(sessions=None, archived=None, stateless=10 * DAY_MS, rewound=10 * DAY_MS, messages=None)
    assert not found.idle
    assert Retention(archived_days=1).cut(0).idle
