import pytest

from agentvm.model.webhook import Delivery, DeliveryState


@pytest.mark.parametrize(
    ("next_at", "delivered_at", "state"), [(5, None, "pending"), (None, 5, "delivered"), (None, None, "failed")]
)
def test_a_delivery_is_pending_as_long_as_it_will_be_tried(
    next_at: int | None, delivered_at: int | None, state: DeliveryState
) -> None:
    delivery = Delivery(number=1, event_id="e", type="turn.failed", created_at=1, next_at=next_at, delivered_at=delivered_at)
    assert delivery.state == state
