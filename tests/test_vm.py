import pytest

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import QuotaExceeded
from agentvm.model.account import Quota
from agentvm.model.ids import TenantId, UserId
from agentvm.model.principal import Principal
from agentvm.vm import OPEN_ACCESS, system_clock

IN_MEMORY = ServerConfig(system=SystemSettings(data_dir=MEMORY))


async def test_a_peer_is_attached_with_its_principal_and_leaves_no_trace() -> None:
    async with open_agentvm(IN_MEMORY, drivers={"scripted": ScriptedDriver()}) as vm:
        peer = vm.attach()
        other = vm.attach(Principal(tenant_id=TenantId("other")))
        assert (peer.tenant_id, other.tenant_id) == (OPEN_ACCESS.tenant_id, "other")
        assert list(vm.runtime.broadcaster.channels) == [peer.channel, other.channel]
        vm.detach(peer)
        vm.detach(other)
        assert list(vm.runtime.broadcaster.channels) == []


async def test_the_connections_of_a_user_count_for_the_user_and_all_of_them_for_the_tenant() -> None:
    async with open_agentvm(IN_MEMORY, drivers={"scripted": ScriptedDriver()}) as vm:
        acme = TenantId("acme")
        alice, bob = (Principal(tenant_id=acme, user_id=UserId(name)) for name in ("alice", "bob"))
        quotas = vm.tenancy.store.accounts(acme).quotas
        await quotas.put(Quota(metric="connections", hard=1, user_id=alice.user_id), 1)
        await quotas.put(Quota(metric="connections", hard=3), 1)
        for _ in range(2):
            await vm.admit(bob)
            vm.attach(bob)
        await vm.admit(alice)
        vm.attach(alice)
        with pytest.raises(QuotaExceeded, match="0 of 3 left"):
            await vm.admit(alice)
        with pytest.raises(QuotaExceeded, match="0 of 3 left"):
            await vm.admit(bob)


def test_the_clock_counts_milliseconds() -> None:
    assert 1_700_000_000_000 < system_clock() < 10_000_000_000_000
