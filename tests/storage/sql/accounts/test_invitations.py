"""Invitations in the database; what they promise is tested in `tests/operations/test_invitation.py`."""

from tests.server.http.fixtures import open_world

from agentvm.model.ids import UserId
from agentvm.storage.sql.accounts import invitations


async def test_old_invitations_that_nobody_can_accept_go_for_new_ones() -> None:
    async with open_world() as world:
        store = world.vm.tenancy.store.accounts(world.acme.tenant_id).invitations
        add = world.vm.tenancy.access.invitations.add
        for number in range(invitations.LISTED_MAX + 3):
            made, _ = await add(world.acme.tenant_id, "x", role="member", external_id=None, display_name=None, days=1)
            if number != 1:
                assert await store.accept(made.invitation_id, UserId(f"usr_{number}"), world.clock())
        listed = await store.list()
        assert len(listed) == invitations.LISTED_MAX
        rows = await store._database.read(lambda connection: connection.fetch("SELECT user_id FROM invitations"))
        # The second waits still, so it is kept; the first has gone.
        assert (None,) in [tuple(row) for row in rows]
        assert ("usr_0",) not in [tuple(row) for row in rows]
