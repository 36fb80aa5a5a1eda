import anyio
import pytest
from tests.gateways.openai.fixtures import talking

from agentvm.drivers.scripted import in_turn, reply, tool_calls
from agentvm.errors import InvalidInput
from agentvm.gateways.client_calls import answer_calls, client_waits, find_waiting_turn
from agentvm.gateways.talk import Talk
from agentvm.gateways.turn_parts import TextAdded, TurnEnded, TurnWaits
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.turn import ClientTool, TurnOptions

HOME = ContainerId("c1")


async def test_results_are_for_the_calls_that_wait_for_them() -> None:
    script = in_turn(tool_calls(("call_1", "f", {}), ("call_2", "f", {})), reply("done"))
    async with talking(script) as (_, served):
        talk = Talk(vm=served.running.server.vm, principal=Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING))
        image = await talk.agent("default", HOME)
        session = await talk.open(image.image_id, None)
        sent = await talk.send(session.session_id, "hi", options=TurnOptions(tools=(ClientTool(name="f"),)))
        with anyio.fail_after(60):
            async for part in talk.parts(sent):
                if isinstance(part, TurnWaits):
                    break
        turn, waits = await find_waiting_turn(talk, ["call_1"], session_id=None, container_id=HOME)
        assert turn.turn_id == sent.turn_id
        assert sorted(waits) == ["call_1", "call_2"]
        assert waits == await client_waits(talk, session_id=session.session_id, turn_id=sent.turn_id)
        with pytest.raises(InvalidInput, match="no longer waited for"):
            await answer_calls(talk, waits, {"call_3": "x"})
        assert await answer_calls(talk, waits, {"call_1": "a", "call_2": "b"}) == sent.turn_id
        parts = [part async for part in talk.parts(await talk.sent(await talk.turn(sent.turn_id)))]
        assert isinstance(parts[-1], TurnEnded)
        assert TextAdded("done") in parts
        assert await client_waits(talk, session_id=session.session_id) == {}
        assert sorted(await client_waits(talk, session_id=session.session_id, turn_id=sent.turn_id)) == ["call_1", "call_2"]
