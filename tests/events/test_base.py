import pytest

from agentvm.events.lifecycle import SessionDeleted, SessionTitleUpdated
from agentvm.model.ids import ContainerId, ImageId, SessionId
from agentvm.model.session import Session

SESSION = Session(
    session_id=SessionId("s"),
    image_id=ImageId("i"),
    container_id=ContainerId("c"),
    title="Trip",
    created_at=1,
    updated_at=2,
    deleted_at=3,
)


def test_an_event_has_the_fields_of_its_record_and_those_that_are_given() -> None:
    assert SessionTitleUpdated.of(SESSION) == SessionTitleUpdated(session_id=SessionId("s"), title="Trip", updated_at=2)
    assert SessionTitleUpdated.of(SESSION, title=None).title is None
    deleted = SessionDeleted.of(SESSION, restorable_until=9)
    assert (deleted.deleted_at, deleted.restorable_until) == (3, 9)


def test_a_field_that_the_record_lacks_has_to_be_given() -> None:
    with pytest.raises(AttributeError):
        SessionDeleted.of(SESSION)
