import pytest
from tests.runtime.fixtures import open_world

from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import SessionQuarantined
from agentvm.model.ids import DEFAULT_TENANT, SessionId, TenantId
from agentvm.runtime.recovery.quarantine import Quarantine


async def test_a_session_that_is_set_aside_takes_nothing_until_it_is_released() -> None:
    async with open_world(ScriptedDriver()) as world:
        agent, quarantine, image = world.start(), world.runtime.quarantine, world.image
        await quarantine.put(DEFAULT_TENANT, image.container_id, image.session_id, "it is poison")
        with pytest.raises(SessionQuarantined, match="it is poison"):
            await agent.receive("hello")
        assert await world.messages() == ()
        released = await quarantine.release(DEFAULT_TENANT, image.container_id, image.session_id)
        assert released is not None
        assert released.quarantine is None
        await world.say(agent, "hello")
        await world.hear("turn_response")


async def test_others_are_not_affected() -> None:
    async with open_world(ScriptedDriver()) as world:
        quarantine, image = world.runtime.quarantine, world.image
        await quarantine.put(DEFAULT_TENANT, image.container_id, image.session_id, "why")
        quarantine.check(DEFAULT_TENANT, SessionId("other"))
        quarantine.check(TenantId("other"), image.session_id)


async def test_it_outlives_the_process() -> None:
    async with open_world(ScriptedDriver()) as world:
        image = world.image
        await world.runtime.quarantine.put(DEFAULT_TENANT, image.container_id, image.session_id, "why")
        later = Quarantine(world.store, lambda: 5)
        later.check(DEFAULT_TENANT, image.session_id)
        await later.load()
        with pytest.raises(SessionQuarantined, match="why"):
            later.check(DEFAULT_TENANT, image.session_id)
