import pytest
from tests.commands.fixtures import open_desk

from agentvm.model.ids import ContainerId, SessionId
from agentvm.model.limits import Compaction, Limits
from agentvm.testing.conformance.summaries import exchanges, sum_up

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("by", ["model", "off"])
async def test_a_summary_is_recalled_where_the_tenant_wants_one(by: str) -> None:
    async with open_desk(limits=Limits(compaction=Compaction(by=by))) as desk:  # type: ignore[arg-type]
        image = await desk.create_image()
        tenant, home, session_id = desk.peer.tenant_id, ContainerId("c1"), SessionId(image["sessionId"])
        log = desk.vm.office.store.tenant(tenant).container(home).log(session_id)
        await log.record(messages=exchanges(1, 2), now=1)
        assert await sum_up(log, "s1", 1)
        recalled = await desk.vm.runtime._ports.recall(tenant, home, session_id)
        assert (recalled.summary is None) == (by == "off")
        assert list(recalled.messages) == (exchanges(2) if by == "model" else exchanges(1, 2))
