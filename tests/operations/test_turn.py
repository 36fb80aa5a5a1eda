from typing import Any

import msgspec
from tests.operations.test_metric import talk
from tests.server.http.fixtures import World, open_world

from agentvm.model.ids import DEFAULT_TENANT, ContainerId, SessionId
from agentvm.model.principal import MEMBER, Principal
from agentvm.operations.dispatch import answer
from agentvm.operations.image_build import ImageCreate
from agentvm.operations.message import MessageSend


async def turns(world: World, session: str, key: str | None = None, more: str = "") -> list[Any]:
    return (await world.ask("GET", f"/v1/turns?session={session}&tenant=acme{more}", key=key)).items


async def test_turns_are_listed_newest_first_page_by_page() -> None:
    async with open_world() as world:
        session = await talk(world, world.acme.tenant_id, "alice", "one", "two three", "four five six")
        found = await turns(world, session)
        assert [turn["outcome"] for turn in found] == ["completed"] * 3
        assert [turn["usage"]["outputTokens"] for turn in found] == [3, 2, 1]
        assert [(turn["model"], turn.get("price")) for turn in found] == [("scripted", 0)] * 3
        page = (await world.ask("GET", f"/v1/turns?session={session}&limit=2&tenant=acme")).body
        rest = (await world.ask("GET", f"/v1/turns?session={session}&limit=2&cursor={page['nextCursor']}&tenant=acme")).body
        assert page["items"] + rest["items"] == found
        assert "nextCursor" not in rest
        refused = await world.ask("GET", f"/v1/turns?session={session}&cursor=x&tenant=acme")
        assert refused.code == "invalid_input"


async def test_the_messages_of_a_session_come_with_the_price_model_and_time_of_their_turns() -> None:
    async with open_world() as world:
        session = await talk(world, world.acme.tenant_id, "alice", "one", "two three")
        newest, oldest = await turns(world, session)
        path = f"/v1/sessions/{session}/messages?tenant=acme&reason=a+test"
        page = (await world.ask("GET", f"{path}&turns=true")).body
        assert page["turns"] == [oldest, newest]
        assert [message["turnId"] for message in page["items"]] == [turn["turnId"] for turn in (oldest, oldest, newest, newest)]
        last = (await world.ask("GET", f"{path}&turns=true&order=newest&limit=1")).body
        assert last["turns"] == [newest]
        assert "turns" not in (await world.ask("GET", path)).body
        # What a fork begins with was paid for in the session that it comes from.
        fork = (await world.ask("POST", f"/v1/sessions/{session}/fork?tenant=acme", {})).body
        query = "turns=true&tenant=acme&reason=a+test"
        copied = (await world.ask("GET", f"/v1/sessions/{fork['sessionId']}/messages?{query}")).body
        assert (len(copied["items"]), copied["turns"]) == (4, [])


async def test_a_slow_turn_is_found_without_knowing_its_session() -> None:
    async with open_world() as world:
        session = await talk(world, world.acme.tenant_id, "alice", "one", "two")
        await talk(world, world.bolt.tenant_id, "bob", "hidden")
        key = world.acme.admin
        newest = (await world.ask("GET", "/v1/turns", key=key)).items
        slowest = (await world.ask("GET", "/v1/turns?order=slowest&outcome=completed", key=key)).items
        assert {turn["sessionId"] for turn in [*newest, *slowest]} == {session}
        took = [turn["endedAt"] - turn["acceptedAt"] for turn in slowest]
        assert took == sorted(took, reverse=True)
        assert len(newest) == len(slowest) == 2
        assert (await world.ask("GET", "/v1/turns?outcome=failed", key=key)).items == []
        world.clock.now += 2 * 86_400_000
        # Of the last day, unless it is said otherwise.
        assert (await world.ask("GET", "/v1/turns", key=key)).items == []
        assert len((await world.ask("GET", "/v1/turns?since=1970-01-01", key=key)).items) == 2
        assert (await world.ask("GET", "/v1/turns?order=odd", key=key)).status == 400
        narrow = await world.key(world.acme.tenant_id, ["sessions:read"], containers=["elsewhere"])
        assert (await world.ask("GET", "/v1/turns?since=1970-01-01", key=narrow)).items == []


async def test_a_timeline_says_what_a_turn_spent() -> None:
    async with open_world() as world:
        session = await talk(world, world.acme.tenant_id, "alice", "one two", "three")
        newest, oldest = await turns(world, session)
        line = (await world.ask("GET", f"/v1/turns/{oldest['turnId']}?tenant=acme")).body
        assert (line["outcome"], line["complete"], line["sessionId"]) == ("completed", True, session)
        (call,) = line["calls"]
        assert (call["provider"], call["model"], call["usage"]) == (
            "scripted",
            "scripted",
            {"inputTokens": 2, "outputTokens": 2},
        )
        assert (call["cost"], line["price"]) == (0, 0)
        assert sum(line["stages"].values()) == line["duration"]
        other = (await world.ask("GET", f"/v1/turns/{newest['turnId']}?tenant=acme")).body
        assert other["calls"][0]["usage"] == {"inputTokens": 1, "outputTokens": 1}


async def test_what_was_told_of_a_turn_is_told_again_word_for_word() -> None:
    async with open_world() as world:
        one = Principal(tenant_id=DEFAULT_TENANT, permissions=MEMBER, containers=("c1",))
        peer = world.vm.attach(one)
        await peer.store.container(ContainerId("c1")).create(1)
        await answer(peer, ImageCreate(container_id="c1"), "r")
        (image,) = await peer.store.container(ContainerId("c1")).list_images()
        heard: list[bytes] = []
        for number, text in enumerate(("first one", "北京 second"), 1):
            await answer(peer, MessageSend(image_id=image.image_id, content=text), "r")
            while sum(b'"turn_response"' in frame for frame in heard) < number:
                heard += [frame.bare.encode() for frame in await peer.channel.take()]
        for row in (await world.ask("GET", f"/v1/turns?session={image.session_id}")).items:
            told = [frame for frame in heard if b'"category":"response"' not in frame]
            mine = [frame for frame in told if f'"turnId":"{row["turnId"]}"'.encode() in frame]
            again: list[bytes] = []
            cursor = "0"
            while cursor:
                path = f"/v1/turns/{row['turnId']}/events?limit=3&cursor={cursor}"
                page = msgspec.json.decode((await world.ask("GET", path)).raw, type=dict[str, msgspec.Raw])
                again += [bytes(item) for item in msgspec.json.decode(page["items"], type=list[msgspec.Raw])]
                cursor = msgspec.json.decode(page["nextCursor"]) if "nextCursor" in page else ""
            assert again == mine
            assert len(again) > 10


async def test_a_turn_that_another_may_not_see_is_not_there() -> None:
    async with open_world() as world:
        session = await talk(world, world.acme.tenant_id, "zoe", "mine")
        (row,) = await turns(world, session)
        paths = (f"/v1/turns/{row['turnId']}", f"/v1/turns/{row['turnId']}/events", f"/v1/turns?session={session}")
        nothing = ("/v1/turns/turn_x", "/v1/turns/turn_x/events", "/v1/turns?session=sess_x")
        for key in (world.acme.user, world.bolt.admin):
            for path, absent in zip(paths, nothing, strict=True):
                refused = await world.ask("GET", path, key=key)
                assert refused.status == 404
                unknown = await world.ask("GET", absent, key=key)
                assert refused.but_its_id(row["turnId"], session) == unknown.but_its_id("turn_x", "sess_x")
        for path in paths:
            assert (await world.ask("GET", path, key=world.acme.admin)).status == 200
        blind = await world.key(world.acme.tenant_id, ["metrics:read"])
        assert (await world.ask("GET", paths[0], key=blind)).status == 403


async def test_a_turn_whose_log_was_dropped_is_known_by_its_bill() -> None:
    async with open_world() as world:
        session = await talk(world, world.acme.tenant_id, "alice", "one", "two")
        _, oldest = await turns(world, session)
        world.clock.now += 1
        await talk_again(world, session)
        await world.vm.tenancy.store.trim_log(world.clock.now, 10**9)
        line = (await world.ask("GET", f"/v1/turns/{oldest['turnId']}?tenant=acme")).body
        assert (line["complete"], line["outcome"], line["usage"]["inputTokens"]) == (False, "completed", 1)
        assert "stages" not in line
        gone = await world.ask("GET", f"/v1/turns/{oldest['turnId']}/events?tenant=acme")
        assert (gone.status, gone.code) == (404, "not_found")


async def talk_again(world: World, session: str) -> None:
    """One more turn in the session, so that what came before is not its newest part."""
    store = world.vm.tenancy.store.tenant(world.acme.tenant_id).container(ContainerId("user-alice"))
    found = await store.get_session(SessionId(session))
    assert found is not None
    one = Principal(tenant_id=world.acme.tenant_id, permissions=MEMBER)
    peer = world.vm.attach(one)
    await answer(peer, MessageSend(image_id=found.image_id, content="three"), "r")
    said = ""
    while '"turn_response"' not in said:
        said = "".join(frame.bare for frame in await peer.channel.take())
    world.vm.detach(peer)
