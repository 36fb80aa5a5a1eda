"""What changes an image after it was built: updates and upgrades, and nothing else."""

import dataclasses
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.operations.fixtures import Desk, Vanishing, ask_at_once, open_desk

from agentvm.app import open_agentvm
from agentvm.config import ServerConfig, SystemSettings
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, reply
from agentvm.model.limits import Limits
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.resources.registry import Author

SALES = "resource://prompts/sales"


async def told(desk: Desk, driver: ScriptedDriver, image_id: str) -> str | None:
    """The system prompt of one more turn."""
    desk.forget()
    sent = await desk.ask("message_send", imageId=image_id, content="hi")
    assert "error" not in sent, sent
    await desk.hear("turn_response")
    return driver.prompts[-1].system


async def test_an_update_of_what_decides_behaviour_counts_from_the_next_turn_on() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        image = await desk.create_image(name="Chat", systemPrompt="be nice", maxTokens=50)
        assert await told(desk, driver, image["imageId"]) == "be nice"
        other = desk.another()
        await other.ask("image_get", imageId=image["imageId"])
        other.forget()
        updates = {"systemPrompt": "be brief", "temperature": 0.5, "tools": ["calculator"], "thinking": 2_000, "name": "New"}
        record = (await desk.ask("image_update", imageId=image["imageId"], updates=updates))["record"]
        assert (record["systemPrompt"], record["name"], record["online"]) == ("be brief", "New", True)
        assert record["digest"] != image["digest"]
        assert other.hear_nowait()[0]["data"]["updatedAt"] == record["updatedAt"]
        assert await told(desk, driver, image["imageId"]) == "be brief"
        last = driver.prompts[-1]
        assert (last.temperature, last.max_tokens, last.thinking) == (0.5, 50, 2_000)
        assert [tool.name for tool in last.tools] == ["calculator"]
        assert len(last.conversation) == 3, "the history goes on"


@pytest.mark.parametrize(
    ("updates", "code"),
    [
        ({"model": "nobody/x"}, "driver_not_found"),
        ({"tools": ["x"]}, "tool_not_found"),
        ({"temperature": 3}, "invalid_input"),
        ({"systemPrompt": "resource://prompts/nobody"}, "resource_not_found"),
        ({"sandbox": "x"}, "invalid_input"),
    ],
)
async def test_an_update_that_could_not_run_changes_nothing(updates: dict[str, object], code: str) -> None:
    async with open_desk() as desk:
        image = await desk.create_image(name="Chat", systemPrompt="be nice")
        refused = await desk.ask("image_update", imageId=image["imageId"], updates={**updates, "name": "New"})
        assert refused["errorCode"] == code
        assert (await desk.ask("image_get", imageId=image["imageId"]))["record"] == image


async def test_a_turn_that_runs_keeps_what_it_began_with_and_the_one_that_waits_does_not() -> None:
    go = anyio.Event()

    def play(prompt: Prompt) -> Sequence[ScriptStep]:
        return [*reply("one")[:3], Pause(go), *reply("one")[3:]] if prompt.system == "be nice" else reply("two")

    driver = ScriptedDriver(play)
    async with open_desk(driver) as desk:
        image_id = (await desk.create_image(systemPrompt="be nice"))["imageId"]
        await desk.ask("message_send", imageId=image_id, content="a")
        await desk.hear("text_delta")
        await desk.ask("message_send", imageId=image_id, content="b")
        await desk.ask("image_update", imageId=image_id, updates={"systemPrompt": "be brief"})
        go.set()
        await desk.hear("turn_response", times=2)
        assert [prompt.system for prompt in driver.prompts] == ["be nice", "be brief"]


async def test_an_agent_that_left_memory_comes_back_with_what_was_changed_meanwhile() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver, limits=Limits(idle_seconds=0.001)) as desk:
        image_id = (await desk.create_image(systemPrompt="be nice"))["imageId"]
        await told(desk, driver, image_id)
        with anyio.fail_after(60):
            while len(desk.vm.runtime.roster):
                await anyio.lowlevel.checkpoint()
        await desk.ask("image_update", imageId=image_id, updates={"systemPrompt": "be brief"})
        assert await told(desk, driver, image_id) == "be brief"


async def test_those_who_change_an_image_at_once_are_all_heard() -> None:
    async with open_desk() as desk:
        image = await desk.create_image()
        changes: list[dict[str, object]] = [{"systemPrompt": "a"}, {"temperature": 0.5}, {"maxTokens": 7}, {"thinking": 9}]
        about = [{"imageId": image["imageId"], "updates": updates} for updates in changes]
        assert await ask_at_once([(desk.another(), "image_update", one) for one in about]) == []
        found = await desk.peer.store.container(image["containerId"]).get_image(image["imageId"])
        assert found is not None
        frozen = found.definition
        assert (frozen.system_prompt, frozen.temperature, frozen.max_tokens, frozen.thinking) == ("a", 0.5, 7, 9)
        assert not desk.vm.runtime.rebuilding


async def test_an_update_leaves_other_references_where_they_were_and_follows_those_it_names() -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "sales", {"text": "one {{who}}"})
        image_id = (await desk.create_image(systemPrompt=SALES, variables={"who": "Ann"}))["imageId"]
        await desk.publish("prompts", "sales", {"text": "two {{who}}"})

        async def update(**updates: object) -> Any:
            return (await desk.ask("image_update", imageId=image_id, updates=updates))["record"]

        assert (await update(temperature=0.1))["systemPrompt"] == "one Ann"
        assert (await update(variables={"who": "Bob"}))["systemPrompt"] == "one Bob"
        newer = await update(systemPrompt=SALES)
        assert (newer["systemPrompt"], newer["lock"][0]["version"]) == ("two Bob", "1.0.1")
        plain = await update(systemPrompt="be nice")
        assert (plain["systemPrompt"], "systemPromptRef" in plain, "lock" in plain) == ("be nice", False, False)
        back = await update(systemPrompt=SALES)
        assert (back["systemPrompt"], back["systemPromptRef"]) == ("two Bob", SALES)


async def test_an_upgrade_follows_what_floats_and_says_what_changed() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        await desk.publish("prompts", "sales", {"text": "one"})
        image = await desk.create_image(systemPrompt=SALES)
        image_id = image["imageId"]
        assert await told(desk, driver, image_id) == "one"
        nothing = await desk.ask("image_upgrade", imageId=image_id)
        assert (nothing["changes"], nothing["diff"], nothing["applied"]) == ([], {}, False)
        await desk.publish("prompts", "sales", {"text": "two"})
        assert await told(desk, driver, image_id) == "one", "nothing changes by itself"
        desk.forget()
        tried = await desk.ask("image_upgrade", imageId=image_id, dryRun=True)
        assert tried["changes"] == [{"uri": SALES, "from": "1.0.0", "to": "1.0.1"}]
        assert tried["diff"] == {"systemPrompt": {"before": "one", "after": "two"}}
        assert (tried["applied"], tried["record"]["systemPrompt"]) == (False, "one")
        assert desk.types() == ["image_upgrade_response"]
        assert await told(desk, driver, image_id) == "one"
        done = await desk.ask("image_upgrade", imageId=image_id)
        assert (done["changes"], done["diff"]) == (tried["changes"], tried["diff"])
        assert (done["applied"], done["record"]["systemPrompt"]) == (True, "two")
        assert "image_updated" in desk.types()
        assert await told(desk, driver, image_id) == "two"
        again = await desk.ask("image_upgrade", imageId=image_id)
        assert (again["changes"], again["applied"]) == ([], False)


@pytest.mark.parametrize("uri", [f"{SALES}@1.0.0", "be nice"])
async def test_what_names_an_exact_version_or_none_is_never_upgraded(uri: str) -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "sales", {"text": "one"})
        image_id = (await desk.create_image(systemPrompt=uri))["imageId"]
        await desk.publish("prompts", "sales", {"text": "two"})
        assert (await desk.ask("image_upgrade", imageId=image_id))["changes"] == []


async def test_an_agent_is_upgraded_with_what_its_new_version_is_locked_to() -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "sales", {"text": "one"})
        await desk.publish("prompts", "extra", {"text": "more"})
        seller = {"systemPrompt": SALES, "temperature": 0.2}
        await desk.publish("agents", "seller", seller)
        made = await desk.ask("image_build", containerId="c1", definition="resource://agents/seller@^1")
        image_id = made["record"]["imageId"]
        await desk.publish("prompts", "sales", {"text": "two"})
        assert (await desk.ask("image_upgrade", imageId=image_id))["changes"] == []
        await desk.publish("agents", "seller", {**seller, "temperature": 0.4})
        done = await desk.ask("image_upgrade", imageId=image_id)
        assert done["changes"] == [{"uri": "resource://agents/seller@^1", "from": "1.0.0", "to": "1.0.1"}]
        assert done["diff"] == {
            "systemPrompt": {"before": "one", "after": "two"},
            "temperature": {"before": 0.2, "after": 0.4},
        }
        assert [one["uri"] for one in done["record"]["lock"]] == ["resource://agents/seller@1.0.1", f"{SALES}@1.0.1"]


async def test_an_update_leaves_an_agent_at_its_version_and_changes_what_it_says() -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "sales", {"text": "one {{who}}"})
        seller = {"systemPrompt": SALES, "defaults": {"who": "all"}, "tools": ["calculator"]}
        await desk.publish("agents", "seller", seller)
        image_id = (await desk.ask("image_build", containerId="c1", definition="seller"))["record"]["imageId"]
        await desk.publish("prompts", "sales", {"text": "two {{who}}"})
        await desk.publish("agents", "seller", {**seller, "temperature": 1})
        updates = {"variables": {"who": "Ann"}, "tools": ["current_time"]}
        record = (await desk.ask("image_update", imageId=image_id, updates=updates))["record"]
        assert (record["systemPrompt"], record["definitionRef"]) == ("one Ann", "resource://agents/seller")
        assert [one["version"] for one in record["lock"]] == ["1.0.0", "1.0.0"]


async def test_who_may_not_read_resources_cannot_build_anew_what_refers_to_them() -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "sales", {"text": "one"})
        image_id = (await desk.create_image(systemPrompt=SALES))["imageId"]
        principal = Principal(tenant_id=desk.peer.tenant_id, permissions=EVERYTHING - {"resources:read"})
        limited = Desk(desk.vm, desk.vm.attach(principal))
        refused = await limited.ask("image_update", imageId=image_id, updates={"temperature": 0.5})
        assert refused["errorCode"] == "permission_denied"
        assert (await limited.ask("image_upgrade", imageId=image_id))["errorCode"] == "permission_denied"
        renamed = await limited.ask("image_update", imageId=image_id, updates={"name": "New"})
        assert (renamed["record"]["name"], renamed["record"]["systemPrompt"]) == ("New", "one")


async def test_an_upgrade_to_what_is_gone_is_refused_and_changes_nothing() -> None:
    async with open_desk() as desk:
        theirs = desk.another("acme")
        await theirs.publish("prompts", "shared", {"text": "one"}, visibility="public")
        uri = "resource://prompts/acme/shared"
        image = await desk.create_image(systemPrompt=uri)
        await hide(theirs, "shared")
        refused = await desk.ask("image_upgrade", imageId=image["imageId"])
        assert (refused["errorCode"], uri in refused["error"]) == ("resource_not_found", True)
        assert (await desk.ask("image_get", imageId=image["imageId"]))["record"] == image
        kept = await desk.ask("image_update", imageId=image["imageId"], updates={"temperature": 0.3})
        assert kept["record"]["systemPrompt"] == "one", "what it is locked to stays readable"


async def hide(desk: Desk, name: str) -> None:
    """Withdraws and deletes it, whoever needs it."""
    registry = desk.vm.resources.registry
    author = Author(tenant_id=desk.peer.tenant_id, actor="a", may_publish=True)
    found = await registry.find(desk.peer.tenant_id, f"resource://prompts/{name}")
    await registry.yank(author, found.resource_id, "1.0.0", yanked=True)
    await registry.delete(author, found.resource_id, force=True)


async def test_a_session_goes_on_as_it_was_built_whatever_becomes_of_the_resource(tmp_path: Path) -> None:
    driver = ScriptedDriver()

    async def open_there(stack: AsyncExitStack) -> Desk:
        config = ServerConfig(system=SystemSettings(data_dir=str(tmp_path)))
        vm = await stack.enter_async_context(open_agentvm(config, drivers={"scripted": driver}))
        return Desk(vm, vm.attach())

    async with AsyncExitStack() as stack:
        desk = await open_there(stack)
        await desk.publish("prompts", "sales", {"text": "one"})
        image = await desk.create_image(systemPrompt=SALES)
        assert await told(desk, driver, image["imageId"]) == "one"
        await hide(desk, "sales")
    async with AsyncExitStack() as stack:
        desk = await open_there(stack)
        resumed = await desk.ask("session_resume", sessionId=image["sessionId"])
        assert resumed["reused"] is False
        assert await told(desk, driver, image["imageId"]) == "one"
        assert len(driver.prompts[-1].conversation) == 3
        seen = (await desk.ask("image_get", imageId=image["imageId"]))["record"]
        assert (seen["lock"], seen["systemPromptRef"], seen["digest"]) == (image["lock"], SALES, image["digest"])


class Rebuilding(Vanishing):
    async def rebuild_image(self, image: Any) -> bool:
        return False

    def container(self, container_id: str) -> Any:
        return Rebuilding(self._inner.container(container_id), without_images=False)


@pytest.mark.parametrize(("command", "about"), [("image_update", {"updates": {"model": "scripted"}}), ("image_upgrade", {})])
async def test_an_image_that_vanishes_while_it_is_built_anew_is_not_found(command: str, about: dict[str, object]) -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "sales", {"text": "one"})
        image_id = (await desk.create_image(systemPrompt=SALES))["imageId"]
        await desk.publish("prompts", "sales", {"text": "two"})
        desk.peer = dataclasses.replace(desk.peer, store=Rebuilding(desk.peer.store, without_images=False))  # type: ignore[arg-type]  # a double
        assert (await desk.ask(command, imageId=image_id, **about))["errorCode"] == "image_not_found"
