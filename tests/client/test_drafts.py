import pytest

from agentvm import ScriptedDriver, ServerConfig, create_agentx, local_runtime
from agentvm.config import MEMORY, SystemSettings

pytestmark = pytest.mark.anyio


async def test_drafts_are_kept_through_any_link() -> None:
    source = local_runtime(ServerConfig(system=SystemSettings(data_dir=MEMORY)), drivers={"scripted": ScriptedDriver()})
    async with create_agentx(source) as agentx:
        image = await agentx.images.create(container_id="c1")
        kept = await agentx.drafts.save(image.session_id, "not yet", device="phone")
        assert kept.saved
        assert [one.text for one in await agentx.drafts.of(image.session_id)] == ["not yet"]
        assert [one.preview for one in await agentx.drafts.list("c1")] == ["not yet"]
        late = await agentx.drafts.save(image.session_id, "x", device="phone", if_updated_at=1)
        assert not late.saved
