import pytest
from tests.config.fakes import layer, open_centre

from agentvm.config.scope import SettingsScope
from agentvm.errors import NotFound
from agentvm.model.ids import TenantId
from agentvm.model.setting import ChangeRequest
from agentvm.storage.engine import open_store

ACME = TenantId("acme")
ME = ChangeRequest(actor="me")


async def test_a_tenant_sees_the_settings_that_concern_it_and_no_others() -> None:
    async with open_store(None) as store, open_centre(layer(limits__steps=5), store=store) as (centre, _):
        server, tenant = SettingsScope(centre, None), SettingsScope(centre, ACME)
        assert server.has("system.port")
        assert not tenant.has("system.port")
        assert [view.value for view in tenant.explain(["limits.steps"])] == [5]
        assert len(tenant.views()) < len(server.views())
        assert "system" not in tenant.tree()
        with pytest.raises(NotFound, match="only the operator"):
            tenant.group("system")
        with pytest.raises(NotFound, match="step"):
            tenant.check_key("limits.step")


async def test_changes_are_shown_without_secrets_and_described_without_unknown_keys() -> None:
    async with open_store(None) as store, open_centre(store=store) as (centre, _):
        scope = SettingsScope(centre, None)
        result = await scope.change({"limits.steps": 6, "llm.apiKey": "sk-planted"}, ME)
        assert result.changed == {"limits.steps": (None, 6), "llm.apiKey": (None, "***")}
        assert scope.revision == 1
        (change,) = await scope.history(before=None, limit=10)
        assert change.changes == {"limits.steps": 6, "llm.apiKey": "***"}
        assert await scope.diff(0, 1) == result.changed
        assert (await scope.rollback(0, ME)).changed == {"limits.steps": (6, None), "llm.apiKey": ("***", None)}
        assert scope.describe(["limits.steps", "sk-planted"]) == "server: limits.steps, unknown"
        assert scope.describe([]) == "server"
