"""A batch holds the events of many sessions, and each poster hears of its own failure."""

from agentvm.errors import StoreFailed
from agentvm.model.ids import ContainerId, SessionId, TenantId, TurnId
from agentvm.runtime.batch import Batch
from agentvm.runtime.session_log import SessionLog


def log(name: str) -> SessionLog:
    return SessionLog(TenantId("t"), ContainerId("c"), SessionId(name), 0)


def test_a_log_that_fails_leaves_the_batch_and_its_turns_hear_of_it() -> None:
    batch, failing, other = Batch(), log("failing"), log("other")
    batch.add(failing, TurnId("t1"), ())
    batch.add(failing, TurnId("t2"), ())
    batch.add(other, TurnId("t3"), ())
    error = StoreFailed("full")
    batch.fail({failing: error})
    assert list(batch.parts) == [other]
    assert batch.errors == {(failing, "t1"): error, (failing, "t2"): error}
    assert failing.failed == {"t1": error, "t2": error}
    assert not other.failed


def test_a_part_without_events_has_no_last_number() -> None:
    batch, empty = Batch(), log("empty")
    batch.add(empty, TurnId("t1"), ())
    assert batch.parts[empty].last == 0
