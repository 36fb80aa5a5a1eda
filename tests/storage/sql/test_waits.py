"""Waits as rows: seen in their own container alone, answered once, and gone with their session."""

import msgspec
import pytest
from tests.conformance.records import HOME, SESSION, image
from tests.conformance.records import wait as open_wait
from tests.conformance.store import ACME, settle
from tests.runtime.fixtures import open_world, tool

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, TenantId
from agentvm.model.wait import WaitAnswer
from agentvm.runtime.tools import Tool
from agentvm.storage.base import SessionWrite
from agentvm.storage.sql.store import Store

pytestmark = pytest.mark.anyio


async def ok(arguments: dict[str, object]) -> object:
    return "fine"


async def test_waits_are_listed_by_state_and_session_page_by_page_and_seen_by_nobody_else() -> None:
    plain = tool("ok", ok)
    asking = Tool(spec=plain.spec, run=plain.run, asks=True)
    driver = ScriptedDriver(in_turn(tool_calls(*((f"c{n}", "ok", {}) for n in range(3))), reply("done")))
    async with open_world(driver, tools=[asking]) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_parked")
        waits = world.store.tenant(DEFAULT_TENANT).waits((world.image.container_id,))
        first = await waits.list_page(session_id=world.image.session_id, state="open", after=0, limit=2)
        rest = await waits.list_page(session_id=None, state="open", after=first[-1][0], limit=2)
        assert [wait.call_id for _, wait in (*first, *rest)] == ["c0", "c1", "c2"]
        wait = first[0][1]
        assert await waits.get(wait.wait_id) == wait
        for tenant, container in (("other", world.image.container_id), (DEFAULT_TENANT, "other")):
            stranger = world.store.tenant(TenantId(tenant)).waits((ContainerId(container),))
            assert await stranger.get(wait.wait_id) is None
            assert await stranger.list_page(session_id=None, state=None, after=0, limit=9) == ()
            assert await stranger.list_turn(wait.session_id, wait.turn_id) == ()
        await world.runtime.answer_wait(DEFAULT_TENANT, wait, WaitAnswer(decision="deny", reason="no"), None)
        ((_, answered),) = await waits.list_page(session_id=None, state="answered", after=0, limit=9)
        assert answered.answer == WaitAnswer(decision="deny", reason="no")
        assert len(await waits.list_turn(wait.session_id, wait.turn_id)) == 3


@pytest.mark.parametrize("asked", ["", "sha256:the call itself", "sha256:another"])
async def test_the_call_that_was_first_asked_for_is_kept_and_costs_no_second_digest(store: Store, asked: str) -> None:
    await settle(store, image())
    wait = open_wait("wait_1", asked=asked)
    await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=1, waits=[wait])])
    assert await store.tenant(ACME).waits((HOME,)).get(wait.wait_id) == wait
    ((body,),) = await store._database.read(lambda connection: connection.fetch("SELECT body FROM waits"))
    assert bytes(body).count(b"the call itself") == 1


async def test_the_body_of_a_wait_repeats_no_column_and_one_of_an_earlier_release_is_read(store: Store) -> None:
    await settle(store, image())
    wait = open_wait("wait_1")
    await store.commit([SessionWrite(tenant_id=ACME, container_id=HOME, session_id=SESSION, now=1, waits=[wait])])
    ((body,),) = await store._database.read(lambda connection: connection.fetch("SELECT body FROM waits"))
    assert not {"waitId", "sessionId", "turnId", "callId", "tool", "kind", "expiresAt"} & set(msgspec.json.decode(body))
    whole = msgspec.json.encode(wait)
    await store._database.write(lambda connection: connection.execute("UPDATE waits SET body = ?", (whole,)))
    assert await store.tenant(ACME).waits((HOME,)).get(wait.wait_id) == wait
