from agentvm.model.settings import MEMORY, Settings, SystemSettings
from agentvm.model.tool_settings import ToolSettings
from agentvm.tiers.opening import open_tiers


async def test_a_server_without_settings_has_the_tiers_that_need_none() -> None:
    async with open_tiers(Settings(system=SystemSettings(data_dir=MEMORY), tools=ToolSettings(slots=3)), lambda: 0) as opened:
        assert {tier.name for tier in opened.tiers} == {"isolate", "process"}
        assert opened.slots["process"] == 3
        for tier in opened.tiers:
            offer = await tier.offer()
            assert offer.tier == tier.name
            assert offer.engines or offer.missing
