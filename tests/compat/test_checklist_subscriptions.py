"""Checklist 16-20: who hears what. What a client that names itself hears again: `test_named_clients.py`."""

import pytest
from tests.support.serving import Play, serving
from tests.support.wire import Browser, Client18, client, client_of


async def test_item_16_create_list_and_get_name_the_sessions_and_a_client_subscribes_once_to_each() -> None:
    async with serving() as server, client(server.url) as alice:
        created = await alice.request("image_create_request", containerId="c1", config={})
        session_id = created["record"]["sessionId"]
        assert created["__subscriptions"] == [session_id]
        other = (await alice.request("image_create_request", containerId="c1", config={}))["record"]["sessionId"]
        listed = await alice.request("image_list_request", containerId="c1")
        assert sorted(listed["__subscriptions"]) == sorted([session_id, other])
        got = await alice.request("image_get_request", imageId=created["record"]["imageId"])
        assert got["__subscriptions"] == [session_id]
        assert (await alice.request("image_list_request", containerId="empty"))["__subscriptions"] == []
        assert "__subscriptions" not in await alice.request("image_get_request", imageId="nope")
        assert [frame["sessionId"] for frame in alice.sent if frame["type"] == "subscribe"] == [session_id, other]


async def test_item_16_run_update_messages_and_send_name_no_sessions() -> None:
    async with serving() as server, client(server.url) as alice:
        image_id = (await alice.image())["imageId"]
        for kind in ("image_run_request", "image_update_request", "image_messages_request"):
            assert "__subscriptions" not in await alice.request(kind, imageId=image_id)
        assert "__subscriptions" not in await alice.request("message_send_request", imageId=image_id, content="hi")


async def test_item_17_subscribe_is_idempotent_unanswered_and_accepts_unknown_ids() -> None:
    async with serving() as server, client(server.url) as alice, client(server.url) as bob:
        record = await alice.image()
        await bob.settle()
        heard = len(bob.events)
        for session_id in ("sess_unknown", record["sessionId"], record["sessionId"], record["sessionId"]):
            await bob.send({"type": "subscribe", "sessionId": session_id})
        await bob.settle()
        assert bob.types[heard:] == ["container_list_response"]
        turn = await alice.say(record["imageId"], "one two three")
        await bob.end_of(turn["data"]["turnId"])
        assert [event["data"]["text"] for event in bob.events if event["type"] == "text_delta"] == ["one", " two", " three"]


@pytest.mark.parametrize("session_id", [None, 5, [], {}, "", "../x", "x" * 10_000, "\u0000"])
async def test_item_17_a_senseless_subscription_changes_nothing(session_id: object) -> None:
    async with serving() as server, client(server.url) as alice:
        await alice.send({"type": "subscribe", "sessionId": session_id})
        await alice.say((await alice.image())["imageId"], "hello")


async def test_item_18_sessions_are_heard_by_their_subscribers_and_by_nobody_else() -> None:
    async with serving(Play()) as server, client(server.url) as alice, client(server.url) as bob, client(server.url) as eve:
        first, second = await alice.image("c1"), await eve.image("c2")
        await bob.request("image_get_request", imageId=first["imageId"])
        turns = [await alice.say(first["imageId"], "tool please"), await eve.say(second["imageId"], "hello")]
        await bob.end_of(turns[0]["data"]["turnId"])
        for one in (alice, bob, eve):
            await one.settle()
        of_first = [event for event in alice.events if event.get("context", {}).get("sessionId") == first["sessionId"]]
        assert of_first == [event for event in bob.events if event.get("context", {}).get("sessionId") == first["sessionId"]]
        assert len(of_first) > 20
        for one, foreign in ((alice, second), (bob, second), (eve, first)):
            contexts = [event.get("context", {}) for event in one.events]
            assert foreign["sessionId"] not in {context.get("sessionId") for context in contexts}
            assert foreign["containerId"] not in {context.get("containerId") for context in contexts}


async def test_item_18_two_sessions_of_one_container_are_heard_apart() -> None:
    async with serving(Play()) as server, client(server.url) as alice, client(server.url) as eve:
        first, second = await alice.image("c1"), await eve.image("c1")
        await alice.say(first["imageId"], "tool please")
        await eve.say(second["imageId"], "hello")
        for one, own in ((alice, first), (eve, second)):
            await one.settle()
            sessions = {event["context"]["sessionId"] for event in one.events if "sessionId" in event.get("context", {})}
            assert sessions == {own["sessionId"]}


async def test_item_19_a_client_that_never_subscribes_hears_what_it_created_listed_and_messaged() -> None:
    async with serving() as server, client(server.url) as owner:
        record = await owner.image()
        for step in ("image_create", "image_list", "image_get", "image_run", "image_messages", "message_send"):
            async with client_of(Client18, server.url) as olga:
                image_id = record["imageId"]
                match step:
                    case "image_create":
                        image_id = (await olga.image())["imageId"]
                    case "image_list":
                        await olga.request("image_list_request", containerId="c1")
                    case "image_get" | "image_run" | "image_messages":
                        await olga.request(f"{step}_request", imageId=image_id)
                    case _:
                        pass
                sender = olga if step in ("image_create", "message_send") else owner
                turn = await sender.say(image_id, "hello there")
                await olga.end_of(turn["data"]["turnId"])
                assert "message_persisted" in olga.types, step
                assert "assistant_message" in olga.types, step


async def test_item_20_a_browser_that_lost_its_socket_subscribes_again_and_hears_live_events() -> None:
    play = Play()
    async with serving(play) as server, client(server.url) as owner:
        browser = Browser(server.url, {"Authorization": "Bearer t"})
        async with browser.connected() as before:
            record = await before.image()
            await owner.request("image_get_request", imageId=record["imageId"])
            sent = await before.request("message_send_request", imageId=record["imageId"], content="slow one")
            await before.wait("text_delta", 2)
            await browser.drop(before)
        async with browser.connected() as after:
            await after.settle()
            play.gate.set()
            await after.end_of(sent["turnId"])
            assert [frame["type"] for frame in after.sent[:2]] == ["auth", "subscribe"]
            # The rest of the turn, live; what it missed is in the history.
            assert [event["data"]["text"] for event in after.events if event["type"] == "text_delta"] == ["w2 "]
            history = (await after.request("image_messages_request", imageId=record["imageId"]))["messages"]
            assert history[1]["content"] == [{"type": "text", "text": "w0 w1 w2 "}]


async def test_every_device_of_a_container_sees_everything_change_whoever_did_it() -> None:
    async with serving(Play()) as server, client(server.url) as phone, client(server.url) as laptop, client(server.url) as eve:
        await phone.request("image_list_request", containerId="c1")
        await eve.request("image_list_request", containerId="c2")
        # Made and used by one device; the other has named none of it.
        record = await laptop.image("c1", name="Chat")
        session = (await laptop.request("session_create_request", imageId=record["imageId"], title="Work"))["session"]
        await laptop.request("session_set_title_request", sessionId=session["sessionId"], title="Holiday")
        await laptop.request("image_update_request", imageId=record["imageId"], updates={"name": "New"})
        turn = await laptop.say(record["imageId"], "hello there")
        await phone.end_of(turn["data"]["turnId"])
        sent = await laptop.request(
            "message_send_request", imageId=record["imageId"], sessionId=session["sessionId"], content="slow"
        )
        await phone.wait(lambda event: event["type"] == "text_delta" and event["context"]["sessionId"] == session["sessionId"])
        # And any of them may stop what another began.
        await phone.request("agent_interrupt_request", imageId=record["imageId"], sessionId=session["sessionId"])
        for device in (phone, laptop):
            assert (await device.end_of(sent["turnId"]))["data"]["outcome"] == "interrupted"
        await laptop.request("image_delete_request", imageId=record["imageId"])
        for one in (phone, laptop, eve):
            await one.settle()
        seen = [
            [
                event
                for event in device.events
                if event.get("category") not in (None, "response") and event["type"] != "server_hello"
            ]
            for device in (phone, laptop)
        ]
        assert seen[0] == seen[1]
        kinds = {event["type"] for event in seen[0]}
        assert kinds >= {
            "image_created",
            "session_created",
            "session_title_updated",
            "image_updated",
            "user_message",
            "image_deleted",
        }
        assert {event.get("context", {}).get("containerId") for event in eve.events} <= {None, "c2"}
