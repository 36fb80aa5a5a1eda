"""Runs `references.feature`: images that refer to resources, as a client sees them over a WebSocket."""

from typing import Any

from pytest_bdd import given, parsers, scenarios, then, when
from tests.behaviour.world import World

from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.resource import ResourceType
from agentvm.resources.registry import Author, NewVersion, VersionChange

scenarios("references.feature")

AUTHOR = Author(tenant_id=DEFAULT_TENANT, actor="author", may_publish=True)


async def publish(world: World, kind: ResourceType, name: str, content: dict[str, Any]) -> None:
    centre = world.running.running.server.vm.resources
    found = await centre.store.resources(DEFAULT_TENANT).find(kind, name)
    if found is None:
        await centre.registry.register(AUTHOR, NewVersion(type=kind, name=name, content=content))
    else:
        await centre.registry.revise(AUTHOR, found.resource_id, VersionChange(content=content))


async def withdraw(world: World, name: str) -> None:
    centre = world.running.running.server.vm.resources
    found = await centre.registry.find(DEFAULT_TENANT, f"resource://prompts/{name}")
    for version in (await centre.store.resources(DEFAULT_TENANT).history(found.resource_id)).versions:
        await centre.registry.yank(AUTHOR, found.resource_id, version.version, yanked=True)
    await centre.registry.delete(AUTHOR, found.resource_id, force=True)


# --- resources


@given(parsers.re(r'the prompt "(?P<name>.*)" says "(?P<text>.*)"'))
@when(parsers.re(r'the prompt "(?P<name>.*)" says "(?P<text>.*)"'))
def _(world: World, name: str, text: str) -> None:
    world.run(publish, world, "prompts", name, {"text": text})


@when(parsers.re(r'the prompt "(?P<name>.*)" is withdrawn and deleted'))
def _(world: World, name: str) -> None:
    world.run(withdraw, world, name)


@given(parsers.re(r'the agent "(?P<name>.*)" refers to "(?P<uri>.*)" for "(?P<product>.*)"'))
def _(world: World, name: str, uri: str, product: str) -> None:
    world.run(publish, world, "agents", name, {"systemPrompt": uri, "defaults": {"product": product}})


@when(parsers.re(r'alice registers the prompt "(?P<name>.*)" that says "(?P<text>.*)"'))
def _(world: World, name: str, text: str) -> None:
    world.request("alice", "resource_register_request", type="prompt", name=name, content={"text": text})


@then(parsers.re(r'"(?P<uri>.*)" resolves to "(?P<text>.*)" for "(?P<name>.*)"'))
def _(world: World, uri: str, text: str, name: str) -> None:
    assert world.answer["uri"] == uri
    world.request("alice", "resource_resolve_request", uri=uri, args={"name": name})
    assert world.answer["rendered"] == text


@when(parsers.re(r'alice looks for tools(?: about "(?P<about>.*)")?$'))
def _(world: World, about: str | None) -> None:
    world.request("alice", "resource_list_request", type="tools", **({} if about is None else {"q": about}))


@then(parsers.re(r'she finds "(?P<first>[^"]*)" and "(?P<second>[^"]*)" among others$'))
def _(world: World, first: str, second: str) -> None:
    assert {record["name"] for record in world.answer["records"]} > {first, second}


@then(parsers.re(r'she finds "(?P<name>[^"]*)"$'))
def _(world: World, name: str) -> None:
    assert [record["name"] for record in world.answer["records"]] == [name]


# --- images


@given(parsers.re(r'alice has an image that refers to "(?P<uri>.*)" for "(?P<product>.*)"'))
@when(parsers.re(r'alice creates an image that refers to "(?P<uri>.*)" for "(?P<product>.*)"'))
def _(world: World, uri: str, product: str) -> None:
    refer(world, uri, product)
    world.images["alice"] = world.answer["record"]


@when(parsers.re(r'alice refers to "(?P<uri>.*)" for "(?P<product>.*)"'))
def refer(world: World, uri: str, product: str) -> None:
    config = {"systemPrompt": uri, "variables": {"product": product}}
    world.request("alice", "image_create_request", containerId="c1", config=config)


@when(parsers.re(r'alice builds "(?P<name>.*)"'))
def _(world: World, name: str) -> None:
    world.images["alice"] = world.request("alice", "image_build_request", containerId="c1", definition=name)["record"]


@then(parsers.re(r'the image says where its prompt came from: "(?P<uri>.*)", version "(?P<version>.*)"'))
def _(world: World, uri: str, version: str) -> None:
    record = world.record("alice")
    assert record["systemPromptRef"] == uri
    assert [(one["uri"], one["version"]) for one in record["lock"]] == [(f"{uri}@{version}", version)]


@when("alice asks what an upgrade would change")
def _(world: World) -> None:
    world.request("alice", "image_upgrade_request", imageId=world.images["alice"]["imageId"], dryRun=True)


@then(parsers.re(r'the prompt would change from "(?P<before>.*)" to "(?P<after>.*)"'))
def _(world: World, before: str, after: str) -> None:
    assert world.answer["diff"] == {"systemPrompt": {"before": before, "after": after}}
    assert (world.answer["applied"], len(world.answer["changes"])) == (False, 1)


@when("alice upgrades the image")
def _(world: World) -> None:
    assert world.request("alice", "image_upgrade_request", imageId=world.images["alice"]["imageId"])["applied"] is True


# --- definitions


@then(parsers.re(r'alice finds the definition "(?P<name>.*)" with the prompt "(?P<prompt>.*)"'))
def _(world: World, name: str, prompt: str) -> None:
    found = world.request("alice", "definition_get_request", definitionName=name)["definition"]
    assert (found["systemPrompt"], found["uri"]) == (prompt, f"resource://agents/{name}")
    assert found in world.request("alice", "definition_list_request")["definitions"]


@then(parsers.re(r'alice cannot register another definition "(?P<name>.*)"'))
def _(world: World, name: str) -> None:
    other = {"name": name, "systemPrompt": "other"}
    assert world.request("alice", "definition_register_request", definition=other)["errorCode"] == "definition_conflict"
