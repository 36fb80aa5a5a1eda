import pytest
from tests.operations.test_transfer import limit, talk
from tests.server.http.fixtures import World, open_world

from agentvm.errors import ContainerForbidden, ContainerNotFound, InvalidInput, PermissionDenied, QuotaExceeded
from agentvm.model.ids import ContainerId
from agentvm.model.principal import EVERYTHING, MEMBER, Principal
from agentvm.sessions.export import Selection, export_archive
from agentvm.sessions.transfer import SessionExport, SessionImport
from agentvm.tenants.quota import Quotas


def export_of(world: World, principal: Principal | None = None) -> SessionExport:
    principal = principal or Principal(tenant_id=world.acme.tenant_id, permissions=EVERYTHING)
    return SessionExport(world.vm.workspace(principal), world.vm.exporting)


async def test_sessions_are_selected_by_one_name() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        await talk(world, world.acme.tenant_id, "other")
        outgoing = export_of(world)
        shared, other = Selection(ContainerId("shared")), Selection(ContainerId("other"))
        assert await outgoing.select(session=None, container="other", user=None) == [other]
        assert await outgoing.select(session=None, container=None, user="alice") == [shared]
        everything = await outgoing.select(session=None, container=None, user=None)
        assert sorted(wanted.container_id for wanted in everything) == ["other", "shared"]
        with pytest.raises(InvalidInput):
            await outgoing.select(session="x", container="other", user=None)
        with pytest.raises(ContainerNotFound):
            await outgoing.select(session=None, container="nowhere", user=None)


async def test_a_member_does_not_learn_which_users_there_are() -> None:
    async with open_world() as world:
        member = Principal(tenant_id=world.acme.tenant_id, permissions=MEMBER, user_id=world.acme.user_id)
        for name in ("alice2", "nobody"):
            with pytest.raises(PermissionDenied):
                await export_of(world, member).select(session=None, container=None, user=name)


async def test_an_export_that_is_abandoned_counts_the_bytes_that_were_sent() -> None:
    async with open_world() as world:
        await talk(world, world.acme.tenant_id)
        outgoing = export_of(world)
        selected = await outgoing.select(session=None, container="shared", user=None)
        size = await outgoing.source.measure(selected)
        content = await outgoing.metered(export_archive(outgoing.source, selected), size)
        sent = len(await anext(content))
        await content.aclose()
        await limit(world, "export_bytes_per_day", sent)
        with pytest.raises(QuotaExceeded):
            await Quotas(world.vm.tenancy.store, world.clock).refuse(world.acme.tenant_id, None, "export_bytes_per_day", 1)


async def test_an_import_into_a_container_out_of_reach_is_refused_before_the_file_is_read() -> None:
    async with open_world() as world:
        principal = Principal(tenant_id=world.acme.tenant_id, permissions=MEMBER, containers=("shared",))
        with pytest.raises(ContainerForbidden):
            SessionImport(world.vm.workspace(principal), world.vm.imports, ContainerId("other"))
