"""The turns that a scope covers."""

import msgspec
import pytest

from agentvm.model.ids import ContainerId, ImageId, SessionId, TenantId
from agentvm.model.node import TurnScope

TURN = (TenantId("acme"), ContainerId("home"), ImageId("img_1"), SessionId("sess_1"))


@pytest.mark.parametrize(
    ("scope", "is_covered"),
    [
        (TurnScope(tenant_id=TURN[0]), True),
        (TurnScope(tenant_id=TenantId("rival")), False),
        (TurnScope(tenant_id=TURN[0], container_ids=(ContainerId("away"), TURN[1])), True),
        (TurnScope(tenant_id=TURN[0], container_ids=()), False),
        (TurnScope(tenant_id=TURN[0], image_id=TURN[2]), True),
        (TurnScope(tenant_id=TURN[0], image_id=ImageId("img_2")), False),
        (TurnScope(tenant_id=TURN[0], session_id=TURN[3]), True),
        (TurnScope(tenant_id=TURN[0], container_ids=(TURN[1],), session_id=SessionId("sess_2")), False),
    ],
)
def test_a_scope_covers_what_it_names_also_after_it_was_sent(scope: TurnScope, is_covered: bool) -> None:
    received = msgspec.msgpack.decode(msgspec.msgpack.encode(scope), type=TurnScope)
    assert scope.covers(*TURN) is received.covers(*TURN) is is_covered
