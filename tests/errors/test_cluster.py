"""Errors of a cluster say which session and which node they are about."""

from agentvm.errors import Refused, StoreFailed
from agentvm.errors.cluster import NodeFenced, SessionMoved, SessionsMoved


def test_a_session_that_moved_can_be_tried_again() -> None:
    moved = SessionMoved("s1", 7)
    assert isinstance(moved, Refused)
    assert (moved.session_id, moved.runner, "s1" in str(moved)) == ("s1", 7, True)


def test_a_commit_that_was_refused_has_stored_nothing() -> None:
    assert isinstance(refused := SessionsMoved({"s1": None}), StoreFailed)
    assert refused.runners == {"s1": None}
    assert isinstance(NodeFenced("declared dead"), StoreFailed)
