from agentvm.model.retention import DAY, Retention, RetentionCutoffs


def test_archived_sessions_are_kept_as_the_others_unless_it_is_said_otherwise() -> None:
    assert Retention(session_days=2).cut(10 * DAY).archived == 8 * DAY
    assert Retention(session_days=2, archived_days=5).cut(10 * DAY).archived == 5 * DAY
    assert Retention(archived_days=5).cut(10 * DAY).sessions is None


def test_by_default_only_what_was_taken_back_goes() -> None:
    found = Retention().cut(40 * DAY)
    assert found == RetentionCutoffs(sessions=None, archived=None, rewound=10 * DAY, messages=None)
    assert not found.idle
    assert Retention(archived_days=1).cut(0).idle
