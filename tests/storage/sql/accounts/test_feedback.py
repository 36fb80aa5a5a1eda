"""Ratings in the database; what they promise is tested in `tests/operations/test_feedback.py`."""

from tests.server.http.fixtures import open_world

from agentvm.model.feedback import Feedback
from agentvm.model.ids import SessionId, TurnId


async def test_a_rating_goes_with_its_session_and_needs_one() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.hide(acme)
        store = world.vm.tenancy.store.accounts(acme.tenant_id).feedback
        rating = Feedback(turn_id=TurnId(acme.turn_id), session_id=SessionId("none"), author="", rating="up", at=1)
        assert await store.put(rating) is False
        path = f"/v1/turns/{acme.turn_id}/feedback"
        assert (await world.ask("PUT", path, {"rating": "up"}, key=acme.admin)).status == 200
        ((_, stored),) = await store.list(session_id=SessionId(acme.session_id))
        assert (stored.turn_id, stored.rating) == (acme.turn_id, "up")
        assert (await world.ask("DELETE", f"/v1/sessions/{acme.session_id}", key=acme.admin)).status in (200, 204)
        assert await store.list() == ()
