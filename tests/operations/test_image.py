import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from tests.operations.fixtures import Vanishing, ask_at_once, open_desk
from tests.server.http.fixtures import open_world

from agentvm.blueprint.definition import DEFINITION_MAX_BYTES
from agentvm.drivers.scripted import Pause, ScriptedDriver, reply

NOT_FOUND = {"error": "Image not found: nope", "errorCode": "image_not_found"}
LIMITS = {"steps": 25, "tokens": 2_000_000, "cost": 5_000_000_000, "seconds": 600.0, "toolCalls": 200, "agentCalls": 16}


async def test_an_image_is_created_with_its_container_and_session() -> None:
    async with open_desk() as desk:
        made = await desk.ask("image_create", containerId="c1", config={"name": "Chat", "systemPrompt": "be nice"})
        record = made["record"]
        assert made["__subscriptions"] == [record["sessionId"]]
        shown = [record[name] for name in ("containerId", "name", "systemPrompt", "online")]
        assert shown == ["c1", "Chat", "be nice", False]
        assert set(record) == {
            "imageId", "containerId", "sessionId", "name", "systemPrompt", "createdAt", "updatedAt", "online",
            "definitionName", "digest", "config", "written",
        }  # fmt: skip
        assert desk.types() == ["container_created", "image_created", "image_create_response"]


async def test_a_config_may_be_missing_and_the_name_has_a_default() -> None:
    async with open_desk() as desk:
        made = await desk.ask("image_create", containerId="c1")
        assert made["record"]["name"] == "New Conversation"
        assert "description" not in made["record"]


async def test_a_definition_is_built_by_name_or_whole_and_never_changes_afterwards() -> None:
    async with open_desk() as desk:
        poet = {"name": "poet", "systemPrompt": "rhyme", "description": "writes"}
        await desk.ask("definition_register", definition=poet)
        named = (await desk.ask("image_build", containerId="c1", definition="poet"))["record"]
        whole = (await desk.ask("image_build", containerId="c1", definition={**poet, "description": "other"}))["record"]
        assert named["digest"] == whole["digest"]
        assert (named["name"], named["definitionName"], named["description"]) == ("poet", "poet", "writes")
        changed = {**poet, "systemPrompt": "do not rhyme"}
        other = (await desk.ask("image_build", containerId="c1", definition=changed))["record"]
        assert other["digest"] != named["digest"]
        again = (await desk.ask("image_get", imageId=named["imageId"]))["record"]
        assert (again["systemPrompt"], again["digest"]) == ("rhyme", named["digest"])
        unknown = await desk.ask("image_build", containerId="c1", definition="nobody")
        assert unknown == {"error": "Definition not found: nobody", "errorCode": "definition_not_found"}


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"model": "nobody/x"}, "driver_not_found"),
        ({"tools": ["x"]}, "tool_not_found"),
        ({"maxTokens": 0}, "invalid_input"),
        ({"maxTokens": -5}, "invalid_input"),
        ({"thinking": 0}, "invalid_input"),
        ({"systemPrompt": "x" * DEFINITION_MAX_BYTES}, "invalid_input"),
    ],
)
async def test_a_build_that_could_not_run_is_refused_and_leaves_nothing(config: dict[str, object], code: str) -> None:
    async with open_desk() as desk:
        assert (await desk.ask("image_create", containerId="c1", config=config))["errorCode"] == code
        assert await desk.ask("container_list") == {"containerIds": []}


async def test_a_definition_that_is_too_large_is_not_built_either() -> None:
    async with open_desk() as desk:
        large, half = {"name": "a", "systemPrompt": "x" * DEFINITION_MAX_BYTES}, {"name": "a", "tools": ["calculator"]}
        refused = await desk.ask("image_build", containerId="c1", definition=large)
        assert refused["errorCode"] == "invalid_input"
        config = {"systemPrompt": "x" * DEFINITION_MAX_BYTES}
        refused = await desk.ask("image_build", containerId="c1", definition=half, config=config)
        assert refused["errorCode"] == "invalid_input"
        assert await desk.ask("container_list") == {"containerIds": []}


async def test_what_an_image_may_think_with_reaches_the_model() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        for image in (await desk.create_image(thinking=3_000), await desk.create_image()):
            await desk.ask("message_send", imageId=image["imageId"], content="hi")
        await desk.hear("turn_response", times=2)
        assert sorted(prompt.thinking or 0 for prompt in driver.prompts) == [0, 3_000]


async def test_an_image_runs_once() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        desk.forget()
        first = await desk.ask("image_run", imageId=image["imageId"])
        assert (first["imageId"], first["reused"], first["sessionId"]) == (image["imageId"], False, image["sessionId"])
        assert desk.types() == ["agent_registered", "image_run_response"]
        assert await desk.ask("image_run", imageId=image["imageId"]) == {**first, "reused": True}
        seen = (await desk.ask("image_get", imageId=image["imageId"]))["record"]
        assert (seen["online"], seen["agentId"]) == (True, first["agentId"])


async def test_an_image_is_stopped_as_often_as_one_likes() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        assert await desk.ask("image_stop", imageId=image_id) == {"imageId": image_id}
        await desk.ask("image_run", imageId=image_id)
        desk.forget()
        assert await desk.ask("image_stop", imageId=image_id) == {"imageId": image_id}
        assert desk.types() == ["session_destroyed", "agent_unregistered", "image_stop_response"]
        assert not (await desk.ask("image_get", imageId=image_id))["record"]["online"]


async def test_an_image_is_renamed_and_described_anew_and_everybody_hears_of_it() -> None:
    async with open_desk() as desk:
        image = await desk.create_image(name="Chat", systemPrompt="be nice")
        other = desk.another()
        await other.ask("image_get", imageId=image["imageId"])
        other.forget()
        updates = {"name": "Renamed", "sessionId": "x", "definitionName": "x", "digest": "x"}
        record = (await desk.ask("image_update", imageId=image["imageId"], updates=updates))["record"]
        assert record == {**image, "name": "Renamed", "updatedAt": record["updatedAt"]}
        assert record["updatedAt"] > image["updatedAt"]
        assert [event["data"]["name"] for event in other.hear_nowait()] == ["Renamed"]
        cleared = (await desk.ask("image_update", imageId=image["imageId"], updates={"name": None, "description": ""}))[
            "record"
        ]
        assert (cleared["name"], cleared["description"]) == ("Renamed", "")
        assert (await desk.ask("image_update", imageId=image["imageId"]))["record"]["name"] == "Renamed"


async def test_an_image_that_vanishes_while_it_is_renamed_is_not_found() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        desk.peer = dataclasses.replace(desk.peer, store=Vanishing(desk.peer.store, without_images=False))  # type: ignore[arg-type]  # a double
        assert (await desk.ask("image_update", imageId=image_id, updates={"name": "x"}))["errorCode"] == "image_not_found"


async def test_images_are_listed_newest_first_from_exactly_that_container() -> None:
    async with open_desk() as desk:
        first, second, prefixed = [await desk.create_image(name) for name in ("a", "a", "a:b")]
        listed = await desk.ask("image_list", containerId="a")
        assert [one["imageId"] for one in listed["records"]] == [second["imageId"], first["imageId"]]
        assert listed["__subscriptions"] == [second["sessionId"], first["sessionId"]]
        assert await desk.ask("image_list", containerId="nobody") == {"records": [], "__subscriptions": []}
        assert prefixed["containerId"] == "a:b"


async def test_a_list_without_a_container_is_of_those_the_peer_works_with() -> None:
    async with open_desk() as desk:
        mine = await desk.create_image("c1")
        other = desk.another()
        theirs = await other.create_image("c2")
        assert [one["imageId"] for one in (await desk.ask("image_list"))["records"]] == [mine["imageId"]]
        assert [one["imageId"] for one in (await other.ask("image_list"))["records"]] == [theirs["imageId"]]
        assert (await desk.another().ask("image_list"))["records"] == []
        await desk.ask("image_list", containerId="c2")
        assert [one["imageId"] for one in (await desk.ask("image_list"))["records"]] == [theirs["imageId"], mine["imageId"]]


async def test_an_image_nobody_has_or_of_another_tenant_is_null() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        assert await desk.ask("image_get", imageId="nope") == {"record": None}
        stranger = desk.another("other")
        assert await stranger.ask("image_get", imageId=image["imageId"]) == {"record": None}
        for command in ("image_run", "image_stop", "image_update", "image_messages", "session_list", "session_create"):
            assert (await stranger.ask(command, imageId=image["imageId"]))["errorCode"] == "image_not_found"


async def test_an_image_is_deleted_with_its_agent_and_history_as_often_as_one_likes() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.ask("message_send", imageId=image_id, content="hi")
        await desk.hear("turn_response")
        desk.forget()
        assert await desk.ask("image_delete", imageId=image_id) == {"imageId": image_id}
        assert desk.types() == ["session_destroyed", "agent_unregistered", "image_deleted", "image_delete_response"]
        assert await desk.ask("image_delete", imageId=image_id) == {"imageId": image_id}
        assert desk.types().count("image_deleted") == 1
        assert await desk.ask("image_get", imageId=image_id) == {"record": None}
        assert (await desk.ask("image_messages", imageId=image_id))["errorCode"] == "image_not_found"
        assert await desk.ask("agent_list", containerId="c1") == {"agents": []}


async def test_an_image_deleted_in_the_middle_of_a_turn_still_gives_it_an_end() -> None:
    driver = ScriptedDriver(lambda prompt: [*reply("partial")[:3], Pause(anyio.Event())])
    async with open_desk(driver) as desk:
        image_id = (await desk.create_image())["imageId"]
        await desk.ask("message_send", imageId=image_id, content="hi")
        await desk.hear("text_delta")
        await desk.ask("image_delete", imageId=image_id)
        assert desk.types()[-5:] == [
            "turn_response", "session_destroyed", "agent_unregistered", "image_deleted", "image_delete_response",
        ]  # fmt: skip


async def test_a_message_that_races_a_deletion_leaves_no_agent_behind() -> None:
    async with open_desk() as desk:
        sender = desk.another()

        async def race(image_id: str) -> None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: sender.ask("message_send", imageId=image_id, content="hi"))
                tasks.start_soon(lambda: desk.ask("image_delete", imageId=image_id))

        for _ in range(20):
            await race((await desk.create_image())["imageId"])
        assert await desk.ask("agent_list", containerId="c1") == {"agents": []}


class RacedStore:
    """A store in which something else happens just before an image is deleted, and something just after it."""

    def __init__(self, inner: Any, before: Callable[[], Awaitable[object]], after: Callable[[], Awaitable[object]]) -> None:
        self._inner, self._before, self._after = inner, before, after

    def container(self, container_id: str) -> Any:
        return RacedStore(self._inner.container(container_id), self._before, self._after)

    async def delete_image(self, image_id: str) -> Any:
        await self._before()
        deleted = await self._inner.delete_image(image_id)
        await self._after()
        return deleted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize("command", ["image_run", "message_send"])
async def test_an_agent_started_while_its_image_is_deleted_is_stopped_too(command: str) -> None:
    driver = ScriptedDriver(lambda prompt: [Pause(anyio.Event())])
    async with open_desk(driver) as desk:
        record = await desk.create_image()
        image_id = record["imageId"]
        racer = desk.another()

        async def collect() -> None:
            """The collector, which has found the session before its image is deleted as a whole."""
            desk.vm._forget_purged(desk.peer.tenant_id, record["sessionId"])

        store: Any = RacedStore(
            desk.peer.store,
            lambda: racer.ask(command, imageId=image_id, content="hi"),
            collect,
        )
        deleter = dataclasses.replace(desk, peer=dataclasses.replace(desk.peer, store=store))
        assert await deleter.ask("image_delete", imageId=image_id) == {"imageId": image_id}
        assert await desk.ask("agent_list", containerId="c1") == {"agents": []}
        racer.hear_nowait()
        ends = ["turn_response"] if command == "message_send" else []
        assert racer.types()[-3 - len(ends) :] == [*ends, "session_destroyed", "agent_unregistered", "image_deleted"]


async def test_the_sessions_of_a_deleted_image_are_not_listened_to_any_more() -> None:
    async with open_desk() as desk:
        fresh = vars(desk.vm.runtime.broadcaster)["_sessions"].copy()
        image = await desk.create_image()
        kept = await desk.create_image()
        await desk.ask("session_create", imageId=image["imageId"])
        listener = desk.another()
        for one in (image, kept):
            await listener.ask("image_get", imageId=one["imageId"])
        await desk.ask("image_delete", imageId=image["imageId"])
        listened = {session_id for _, session_id in vars(desk.vm.runtime.broadcaster)["_sessions"]}
        assert (fresh, listened) == ({}, {kept["sessionId"]})


async def test_the_history_of_an_image_is_its_messages_in_order() -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        assert await desk.ask("image_messages", imageId=image_id) == {"imageId": image_id, "messages": []}
        content = [
            {"type": "text", "text": "look"},
            {"type": "image", "data": "AAAA", "mediaType": "image/png", "name": "x.png"},
        ]
        await desk.ask("message_send", imageId=image_id, content=content)
        await desk.hear("turn_response")
        user, assistant = (await desk.ask("image_messages", imageId=image_id))["messages"]
        assert (user["role"], user["subtype"], user["content"]) == ("user", "user", content)
        assert (assistant["subtype"], assistant["content"]) == ("assistant", [{"type": "text", "text": "look"}])


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("image_run", {"imageId": "nope", "agentId": "", "reused": False}),
        ("image_stop", {"imageId": "nope"}),
        ("image_update", {}),
        ("image_messages", {"imageId": "nope", "messages": []}),
        ("session_create", {}),
        ("session_list", {}),
    ],
)
async def test_an_unknown_image_is_refused_in_the_words_of_1x(command: str, said: dict[str, object]) -> None:
    async with open_desk() as desk:
        assert await desk.ask(command, imageId="nope") == {**said, **NOT_FOUND}
        assert desk.types() == ["system_error", f"{command}_response"]
        assert desk.heard[0]["context"] == {"imageId": "nope"}


@pytest.mark.parametrize("command", ["image_get", "image_run", "image_messages", "message_send"])
async def test_a_peer_that_touches_an_image_hears_its_turns_without_subscribing(command: str) -> None:
    async with open_desk() as desk:
        image_id = (await desk.create_image())["imageId"]
        listener = desk.another()
        await listener.ask(command, imageId=image_id, content="hi")
        await desk.ask("message_send", imageId=image_id, content="hello")
        await listener.hear("turn_response")
        assert "text_delta" in listener.types()


async def test_a_name_that_is_too_long_is_refused_wherever_it_is_given() -> None:
    async with open_desk() as desk:
        image, long = await desk.create_image(), "x" * 301
        for command, about in (
            ("image_update", {"imageId": image["imageId"], "updates": {"name": long}}),
            ("image_create", {"containerId": "c1", "config": {"name": long}}),
            ("image_build", {"containerId": "c1", "definition": {"name": long}}),
        ):
            assert (await desk.ask(command, **about))["errorCode"] == "invalid_input"


async def test_those_who_ask_at_once_get_no_more_images_than_the_limit() -> None:
    async with open_desk() as desk:
        await desk.limit("images_per_container", 2)
        refused = await ask_at_once([(desk.another(), "image_create", {"containerId": "c1"}) for _ in range(20)])
        assert refused == ["quota_exceeded"] * 18
        assert len((await desk.ask("image_list", containerId="c1"))["records"]) == 2


async def test_what_a_build_ignores_is_said_in_the_reply() -> None:
    async with open_desk() as desk:
        config = {"temprature": 1, "mcpServers": {}, "variables": {"a": 1}}
        made = await desk.ask("image_create", containerId="c1", config=config)
        assert made["warnings"] == [
            "config.temprature is ignored: there is no such field",
            "variables have no effect: they are values for prompts that are named by a resource:// URI",
        ]
        changed = await desk.ask("image_update", imageId=made["record"]["imageId"], updates={"name": "n", "colour": "red"})
        assert changed["warnings"] == ["updates.colour is ignored: there is no such field"]
        assert "warnings" not in await desk.ask("image_create", containerId="c1", config={"name": "n"})


async def test_an_image_shows_everything_that_decides_how_it_answers() -> None:
    async with open_desk() as desk:
        made = await desk.ask("image_create", containerId="c1", config={"systemPrompt": "be nice", "tools": ["calculator"]})
        config = (await desk.ask("image_get", imageId=made["record"]["imageId"]))["record"]["config"]
        assert config == {
            "model": "scripted/scripted",
            "maxTokens": 4_096,
            "tools": ["calculator"],
            "systemPrompt": "be nice",
            "limits": {**LIMITS, "agentDepth": 3},
        }
        own = {"temperature": 0.5, "maxTokens": 7, "thinking": 9, "model": "scripted/other"}
        record = (await desk.ask("image_create", containerId="c1", config=own))["record"]
        assert record["config"] | own == record["config"]
        assert "calculator" in record["config"]["tools"]
        listed = (await desk.ask("image_list", containerId="c1"))["records"]
        assert not any("config" in one for one in listed)


async def test_an_image_is_shown_as_written_changed_and_stopped_over_http() -> None:
    async with open_world() as world:
        key = world.acme.admin
        prompt = {"type": "prompts", "name": "sales", "content": {"text": "Sell {{what}}."}}
        made = await world.ask("POST", "/v1/resources", prompt, key=key)
        config = {"systemPrompt": "resource://prompts/sales", "variables": {"what": "tea"}, "tools": ["calculator"]}
        body = {"container": "shared", "config": {**config, "name": "Seller", "maxTokens": 100}}
        image = (await world.ask("POST", "/v1/images", body, key=key)).body["image"]
        at = f"/v1/images/{image['imageId']}"
        shown = (await world.ask("GET", at, key=key)).body
        assert {name: shown["written"][name] for name in config} == config
        assert (shown["config"]["systemPrompt"], shown["config"]["maxTokens"], shown["behind"]) == ("Sell tea.", 100, 0)

        await world.ask("PUT", f"/v1/resources/{made.body['id']}", {"content": {"text": "Sell much {{what}}."}}, key=key)
        assert (await world.ask("GET", at, key=key)).body["behind"] == 1
        assert [item["behind"] for item in (await world.ask("GET", "/v1/images?container=shared", key=key)).items] == [1]
        changed = await world.ask("PUT", at, {"updates": {"name": "Tea", "maxTokens": 50}}, key=key)
        assert (changed.body["image"]["name"], changed.body["image"]["config"]["maxTokens"]) == ("Tea", 50)
        assert changed.body["image"]["systemPrompt"] == "Sell tea."
        cleared = await world.ask("PUT", at, {"updates": {"clear": ["maxTokens", "tools"], "temperature": 1}}, key=key)
        written = cleared.body["image"]["written"]
        assert (written.get("maxTokens"), written.get("tools"), written["temperature"]) == (None, None, 1)
        assert cleared.body["image"]["config"]["tools"] == ["current_time", "calculator"]
        assert (await world.ask("PUT", at, {"updates": {"clear": ["name"]}}, key=key)).status == 400
        assert (await world.ask("POST", f"{at}/upgrade", {"dryRun": True}, key=key)).body["changes"]
        assert (await world.ask("POST", f"{at}/stop", {}, key=key)).body == {"imageId": image["imageId"]}
        assert (await world.ask("PUT", at, {"updates": {"name": "x"}}, key=world.bolt.admin)).code == "image_not_found"
        await world.ask("DELETE", f"/v1/resources/{made.body['id']}?force=true", key=key)
        assert (await world.ask("GET", at, key=key)).body["behind"] == 0
