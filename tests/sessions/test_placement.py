from dataclasses import replace

import pytest
from tests.conformance.records import HOME, IMAGE
from tests.sessions.spools import put

from agentvm.model.ids import ContainerId, MessageId, SessionId, TurnId
from agentvm.sessions.placement import ExistingPart, Placement, candidate, existing_messages
from agentvm.sessions.spool import Spool
from agentvm.sessions.staged import Staged
from agentvm.storage.carry import ExistingSession, SessionContent


def test_new_ids_are_given_wherever_the_old_ones_stand() -> None:
    placement = Placement({"img_1": "img_9"}, {"img_1-default": "sess_a_b9"}, container=ContainerId("there"))
    with Spool() as spool:
        put(spool)
        one, first, said, second = Staged(spool.file).load(placement)
    assert (one.image_id, one.session_id, one.container_id) == ("img_9", "sess_a_b9", "there")  # type: ignore[union-attr]
    assert (first.session_id, first.image_id, first.container_id) == ("sess_a_b9", "img_9", "there")  # type: ignore[union-attr]
    assert isinstance(said, SessionContent)
    # In the tenant's books a turn has one name.
    assert said.turns[0].turn_id == said.messages[0].turn_id == "turn_1_b9"
    assert said.messages[1].turn_id is None
    assert second.forked_from.session_id == "sess_a_b9"  # type: ignore[union-attr]
    assert placement.turn_id(SessionId("s2"), TurnId("turn_1")) == "turn_1"


def test_only_what_is_new_is_called_renamed() -> None:
    placement = Placement({"a": "A", "b": "B"}, {"s": "S", "t": "T"}, present=frozenset({"a"}), known={"s": ExistingPart(0, 0)})
    assert placement.renamed == {"b": "B", "t": "T"}


def test_another_id_follows_from_the_old_one_and_where_it_goes() -> None:
    assert candidate("img", "img_1", HOME, 0) == "img_1"
    found = {
        candidate("img", name, where, number) for name in ("a", "b") for where in (HOME, ContainerId("x")) for number in (1, 2)
    }
    assert len(found) == 8
    assert candidate("img", "a", HOME, 1) in found
    assert all(one.startswith("img_") for one in found)


@pytest.mark.parametrize(
    ("messages", "last", "rewound", "reached", "in_file", "expected"),
    [
        (3, "c", False, 3, 3, 3),  # As it was imported.
        (5, "e", False, 3, 3, 3),  # It went on here.
        (1, "a", True, 3, 3, 3),  # Something of it was taken back here.
        (3, "c", False, 0, 5, 3),  # It went on there.
        (0, None, False, 0, 5, 0),
        (0, None, False, 0, 0, 0),
        (4, "x", False, 0, 5, None),  # It went on here and there.
        (3, "c", True, 0, 5, None),
        (2, "c", False, 2, 3, None),  # Its beginning is gone here.
    ],
)
def test_how_much_of_a_session_is_here(
    messages: int, last: str | None, rewound: bool, reached: int, in_file: int, expected: int | None
) -> None:
    ids = ["a", "b", "c", "d", "e"]
    here = ExistingSession(HOME, IMAGE, messages, 0, None if last is None else MessageId(last), False, rewound, reached)
    known = ids[messages - 1] if 0 < messages <= in_file else None
    assert existing_messages(here, in_file, known) == expected
    assert existing_messages(replace(here, is_deleted=True), in_file, known) is None
