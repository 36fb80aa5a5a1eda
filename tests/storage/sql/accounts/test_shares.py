"""Links in the database; what they promise is tested in `tests/operations/test_share.py`."""

from tests.server.http.fixtures import open_world

from agentvm.model.ids import ContainerId, SessionId, ShareId
from agentvm.model.share import Share
from agentvm.storage.sql.accounts.shares import SHARES_MAX


async def test_a_session_has_so_many_links_of_which_expired_ones_go() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.hide(acme)
        store = world.vm.tenancy.store.accounts(acme.tenant_id).shares

        def link(number: int, *, at: int = 1, until: int | None = None, session: str = acme.session_id) -> Share:
            return Share(
                share_id=ShareId(f"share_{number}"),
                session_id=SessionId(session),
                container_id=ContainerId("c"),
                created_by="ada",
                created_at=at,
                expires_at=until,
            )

        assert await store.add(link(0, session="none")) is False
        assert all([await store.add(link(number, until=5 if number else None)) for number in range(SHARES_MAX - 1)])
        assert await store.add(link(99, at=4)) is False
        assert await store.add(link(99, at=5)) is True
        assert [share.share_id for share in await store.list(SessionId(acme.session_id))] == [
            "share_99",
            "share_0",
            acme.share_id,
        ]
        assert await store.drop(ShareId("share_0")) is True
        assert await store.drop(ShareId("share_0")) is False
