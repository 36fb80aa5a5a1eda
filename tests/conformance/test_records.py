from typing import get_args

from agentvm.model.definition import snapshot_of
from agentvm.model.message import Message
from tests.conformance.records import EVERY_KIND, default_session, image


def test_every_kind_of_message_has_an_example() -> None:
    assert {type(each) for each in EVERY_KIND} == set(get_args(Message))


def test_an_image_names_its_snapshot_and_its_default_session() -> None:
    built = image("img_9", "there", now=4)
    session = default_session(built)
    assert built.digest == snapshot_of(built.definition)[0]
    assert (session.session_id, session.image_id, session.container_id) == (built.session_id, "img_9", "there")
