import pytest
from tests.tenants.test_quota import ACME, NOON, opened

from agentvm.errors import QuotaExceeded
from agentvm.model.account import Quota
from agentvm.model.ids import TenantId
from agentvm.tenants.quota import Quotas


async def test_what_left_by_exports_is_known_after_a_restart_and_to_a_limit_that_is_new() -> None:
    limit = Quota(metric="export_bytes_per_day", hard=10)
    async with opened() as (quotas, store, clock):
        await quotas.note_exported(ACME, 4, clock())
        await quotas.note_exported(ACME, 3, clock())
        await store.accounts(ACME).quotas.put(limit, NOON)
        for known in (quotas, Quotas(store, clock)):
            await known.refuse(ACME, None, "export_bytes_per_day", 3)
            with pytest.raises(QuotaExceeded):
                await known.refuse(ACME, None, "export_bytes_per_day", 4)
        clock.now += 86_400_000
        await Quotas(store, clock).refuse(ACME, None, "export_bytes_per_day", 10)
        await Quotas(store, clock).refuse(TenantId("other"), None, "export_bytes_per_day", 10)
