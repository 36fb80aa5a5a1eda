import pytest
from tests.support.serving import serving

from agentvm import Definition
from agentvm.errors import Conflict
from agentvm.gateways.routes import Ask, NoBody
from agentvm.gateways.talk import Talk
from agentvm.gateways.threads import find_named_turn, find_thread, open_thread
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.session import Alias


async def test_a_thread_belongs_to_its_agent_and_its_messages_have_the_names_of_the_client() -> None:
    async with serving(definitions=[Definition(name="other")]) as served:
        talk = Talk(vm=served.running.server.vm, principal=Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING))
        mine, other = (
            Ask(body=NoBody(), path={"agent": name}, headers={"x-avm-container": "c1"}) for name in ("default", "other")
        )
        alias = Alias("agui", "t")
        assert await find_thread(mine, talk, alias) is None
        session = await open_thread(mine, talk, alias)
        assert await open_thread(mine, talk, alias) == session
        assert await find_thread(mine, talk, alias) == session
        assert await find_thread(other, talk, alias) is None
        with pytest.raises(Conflict):
            await open_thread(other, talk, alias)
        sent = await talk.send(session.session_id, "hi", key="m1")
        for named in ("m1", sent.turn_id):
            found = await find_named_turn(talk, session, named)
            assert found is not None
            assert found.turn_id == sent.turn_id
        assert await find_named_turn(talk, session, "m2") is None
        elsewhere = await talk.open(session.image_id, None)
        assert await find_named_turn(talk, elsewhere, sent.turn_id) is None
