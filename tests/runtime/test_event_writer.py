import pytest
from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import StoreFailed
from agentvm.events.lifecycle import Interrupted


async def test_what_cannot_be_stored_is_told_all_the_same_and_what_is_owed_is_paid_first() -> None:
    broken = [False]
    async with open_world(ScriptedDriver(), fails=lambda number: broken[0]) as world:
        agent = world.start()
        told = Interrupted(agent_id=agent.agent_id, container_id=agent.container_id, turn_id=None)
        broken[0] = True
        assert not await agent.writer.tell((told,))
        assert "cursor" not in world.hear_nowait()[-1]
        agent.writer.owed.append(((told,), agent.writer._scope))
        await agent.writer.pay()
        assert len(agent.writer.owed) == 1
        with pytest.raises(StoreFailed):
            await agent.writer.emit((told,), agent.writer._scope)
        assert len(agent.writer.owed) == 1
        broken[0] = False
        assert await agent.writer.tell((told,))
        assert agent.writer.owed == []
        assert [event["cursor"] for event in world.hear_nowait()[-2:]] == ["1", "2"]
