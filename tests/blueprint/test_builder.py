from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.operations.fixtures import Desk, open_desk
from tests.support.examples import examples

from agentvm.blueprint.builder import locked_roots
from agentvm.blueprint.definition import DEFINITION_MAX_BYTES
from agentvm.blueprint.image import build
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.errors import DriverNotFound, ToolNotFound
from agentvm.model.definition import Definition
from agentvm.model.ids import ContainerId
from agentvm.model.image import Image, ImageConfig
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.resource import NODES_MAX
from agentvm.resources.centre import ResourceCentre

GREETING = {"text": "Sell {{product}} to {{who}}.", "format": "mustache-lite"}
ADDER: dict[str, Any] = {
    "description": "Computes",
    "inputSchema": {"type": "object"},
    "runtime": "builtin",
    "entry": "calculator",
}
WEATHER: dict[str, Any] = {**ADDER, "runtime": "http", "entry": "https://example.org/weather"}
BOOKS = {"documents": [{"id": "one", "text": "Once upon a time"}]}


def without(desk: Desk, permission: str) -> Desk:
    principal = Principal(tenant_id=desk.peer.tenant_id, permissions=EVERYTHING - {permission})
    return Desk(desk.vm, desk.vm.attach(principal))


async def stored(desk: Desk, record: dict[str, Any]) -> Image:
    image = await desk.peer.store.container(ContainerId(record["containerId"])).get_image(record["imageId"])
    assert image is not None
    return image


async def test_all_that_an_image_refers_to_is_bounded() -> None:
    async with open_desk() as desk:
        for number in range(9):
            await desk.publish("knowledge", f"k{number}", {"documents": [{"id": "a", "text": "x" * 4_000_000}]})
        config = {"knowledge": [f"resource://knowledge/k{number}" for number in range(9)]}
        refused = await desk.ask("image_create", containerId="c1", config=config)
        assert refused["errorCode"] == "resource_too_large"


async def test_a_prompt_is_rendered_with_the_values_of_the_config_before_those_of_the_definition() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        await desk.publish("prompts", "sales", GREETING)
        seller = {"name": "seller", "systemPrompt": "resource://prompts/sales", "variables": {"product": "tea", "who": "all"}}
        made = await desk.ask("image_build", containerId="c1", definition=seller, config={"variables": {"who": "Ann"}})
        record = made["record"]
        assert "warnings" not in made
        assert (record["systemPrompt"], record["systemPromptRef"]) == ("Sell tea to Ann.", "resource://prompts/sales")
        assert [(one["uri"], one["version"]) for one in record["lock"]] == [("resource://prompts/sales@1.0.0", "1.0.0")]
        assert record["lock"][0]["digest"].startswith("sha256:")
        assert "toolRefs" not in record
        await desk.ask("message_send", imageId=record["imageId"], content="hi")
        await desk.hear("turn_response")
        assert driver.prompts[0].system == "Sell tea to Ann."
        assert (await desk.ask("image_get", imageId=record["imageId"]))["record"]["lock"] == record["lock"]


async def test_tools_that_can_run_are_offered_and_others_are_kept_with_a_warning() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        await desk.publish("tools", "adder", ADDER)
        await desk.publish("tools", "weather", WEATHER)
        await desk.publish("tools", "search", {**ADDER, "runtime": "mcp", "entry": "https://example.org/mcp"})
        tools = ["current_time", "resource://tools/adder", "resource://tools/weather@^1", "resource://tools/search"]
        made = await desk.ask("image_create", containerId="c1", config={"tools": tools})
        record = made["record"]
        (warning,) = made["warnings"]
        assert warning.startswith("resource://tools/search@1.0.0: its tools are not known")
        assert record["toolRefs"] == tools[1:]
        await desk.ask("message_send", imageId=record["imageId"], content="hi")
        await desk.hear("turn_response")
        assert [tool.name for tool in driver.prompts[0].tools] == ["current_time", "calculator", "weather"]
        image = await stored(desk, record)
        assert image.definition.tools == ("current_time", "calculator", "weather")
        assert image.definition.rendered is not None
        assert [(spec["uri"], spec["runtime"]) for spec in image.definition.rendered.tools] == [
            ("resource://tools/adder@1.0.0", "builtin"), ("resource://tools/weather@1.0.0", "http"),
            ("resource://tools/search@1.0.0", "mcp"),
        ]  # fmt: skip


async def test_two_tools_of_one_name_are_told_apart() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        await desk.publish("tools", "calculator", WEATHER)
        made = await desk.ask("image_create", containerId="c1", config={"tools": ["calculator", "resource://tools/calculator"]})
        await desk.ask("message_send", imageId=made["record"]["imageId"], content="hi")
        await desk.hear("turn_response")
        assert [tool.name for tool in driver.prompts[0].tools] == ["calculator", "calculator_2"]


async def test_a_sandbox_and_knowledge_are_kept_with_what_they_came_to() -> None:
    async with open_desk() as desk:
        await desk.publish("sandboxes", "python", {"runtime": "python"})
        await desk.publish("knowledge", "books", BOOKS)
        config = {"sandbox": "resource://sandboxes/python", "knowledge": ["resource://knowledge/books"]}
        made = await desk.ask("image_create", containerId="c1", config=config)
        assert "warnings" not in made
        definition = (await stored(desk, made["record"])).definition
        assert definition.rendered is not None
        assert (definition.sandbox, definition.knowledge) == (None, ())
        assert definition.rendered.sandbox == {"uri": "resource://sandboxes/python@1.0.0", "runtime": "python"}
        assert definition.rendered.knowledge[0]["count"] == 1


async def test_the_build_of_an_image_with_knowledge_names_the_search_beside_its_tools() -> None:
    expected = {
        None: ("current_time", "calculator", "search_knowledge"),
        (): ("search_knowledge",),
        ("search_knowledge", "calculator"): ("search_knowledge", "calculator"),
    }
    async with open_desk() as desk:
        await desk.publish("knowledge", "books", BOOKS)
        for tools, names in expected.items():
            config = {"knowledge": ["resource://knowledge/books"], **({} if tools is None else {"tools": tools})}
            made = await desk.ask("image_create", containerId="c1", config=config)
            assert (await stored(desk, made["record"])).definition.tools == names
        made = await desk.ask("image_create", containerId="c1", config={})
        assert (await stored(desk, made["record"])).definition.tools is None


@pytest.mark.parametrize(
    ("config", "code", "text"),
    [
        ({"systemPrompt": "resource://prompts/nobody@^2"}, "resource_not_found", "resource://prompts/nobody@^2"),
        ({"systemPrompt": "resource://prompts/other/secret"}, "resource_not_found", "resource://prompts/other/secret"),
        (
            {"systemPrompt": "resource://prompts/sales"},
            "prompt_unresolved",
            "product, who; set them as variables of the config",
        ),
        ({"systemPrompt": "resource://tools/adder"}, "invalid_input", "systemPrompt must name one of prompts"),
        ({"tools": ["resource://prompts/sales"]}, "invalid_input", "tools.0 must name one of tools"),
        ({"sandbox": "python"}, "invalid_input", "sandbox must be a URI"),
        ({"knowledge": ["resource://knowledge/books#one"]}, "invalid_input", "the whole of"),
        ({"systemPrompt": "resource://prompts/"}, "resource_uri_invalid", "not a valid resource URI"),
        ({"definition": "resource://prompts/sales"}, "invalid_input", "one of agents"),
        ({"definition": "resource://agents/nobody"}, "resource_not_found", "resource://agents/nobody"),
        ({"definition": "nobody"}, "definition_not_found", "nobody"),
        ({"tools": [f"resource://tools/x{number}" for number in range(NODES_MAX + 1)]}, "resource_too_deep", "256"),
    ],
)
async def test_a_reference_that_leads_nowhere_creates_nothing(config: dict[str, object], code: str, text: str) -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "sales", GREETING)
        await desk.publish("tools", "adder", ADDER)
        await desk.publish("knowledge", "books", BOOKS)
        await desk.another("other").publish("prompts", "secret", {"text": "hush"})
        refused = await desk.ask("image_create", containerId="c1", config=config)
        assert refused["errorCode"] == code
        assert text in refused["error"]
        assert await desk.ask("container_list") == {"containerIds": []}


async def test_who_may_not_read_resources_cannot_refer_to_them() -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "plain", {"text": "be nice"})
        await desk.publish("agents", "seller", {"systemPrompt": "sell"})
        limited = without(desk, "resources:read")
        for config in ({"systemPrompt": "resource://prompts/plain"}, {"definition": "resource://agents/seller"}):
            refused = await limited.ask("image_create", containerId="c1", config=config)
            assert (refused["errorCode"], "resources:read" in refused["error"]) == ("permission_denied", True)
        refused = await limited.ask("image_create", containerId="c1", config={"definition": "seller"})
        assert refused["errorCode"] == "definition_not_found"
        assert (await limited.create_image())["name"] == "New Conversation"


class Untouched:
    """Resources that nobody may ask for."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


async def test_an_image_without_references_asks_nothing_of_the_resource_centre() -> None:
    async with open_desk() as desk:
        nothing: Any = Untouched()
        centre = ResourceCentre(store=nothing, resolver=nothing, registry=nothing)
        desk.vm.resources = centre
        record = await desk.create_image(systemPrompt="see resource://prompts/sales", variables={"a": 1})
        assert record["systemPrompt"] == "see resource://prompts/sales"
        image = await stored(desk, record)
        assert (image.source, image.lock, image.definition.variables) == (None, (), None)
        await desk.ask("image_update", imageId=record["imageId"], updates={"model": "scripted"})
        assert (await desk.ask("image_upgrade", imageId=record["imageId"]))["changes"] == []


async def test_an_agent_is_followed_by_its_own_lock_and_what_the_config_says_by_itself() -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "sales", {"text": "one"})
        await desk.publish("tools", "adder", ADDER)
        agent = {"systemPrompt": "resource://prompts/sales", "tools": ["resource://tools/adder"], "temperature": 0.5}
        await desk.publish("agents", "seller", agent, description="Sells things")
        await desk.publish("prompts", "sales", {"text": "two"})
        built = (await desk.ask("image_build", containerId="c1", definition="resource://agents/seller"))["record"]
        assert (built["systemPrompt"], built["definitionRef"], built["name"]) == ("one", "resource://agents/seller", "seller")
        assert (built["definitionName"], built["systemPromptRef"]) == ("seller", "resource://prompts/sales")
        assert [one["uri"].removeprefix("resource://") for one in built["lock"]] == [
            "agents/seller@1.0.0", "prompts/sales@1.0.0", "tools/adder@1.0.0",
        ]  # fmt: skip
        assert (await stored(desk, built)).definition.temperature == 0.5
        config = {"definition": "seller", "systemPrompt": "resource://prompts/sales"}
        own = (await desk.ask("image_create", containerId="c1", config=config))["record"]
        assert (own["systemPrompt"], own["definitionRef"]) == ("two", "resource://agents/seller")
        assert [one["uri"].removeprefix("resource://") for one in own["lock"]] == [
            "agents/seller@1.0.0", "prompts/sales@1.0.1", "prompts/sales@1.0.0", "tools/adder@1.0.0",
        ]  # fmt: skip


async def test_a_definition_is_not_given_twice() -> None:
    async with open_desk() as desk:
        config = {"definition": "default"}
        refused = await desk.ask("image_build", containerId="c1", definition="default", config=config)
        assert (refused["errorCode"], "twice" in refused["error"]) == ("invalid_input", True)
        created = await desk.ask("image_create", containerId="c1", config=config)
        assert (created["record"]["definitionName"], created["record"]["name"]) == ("default", "New Conversation")


async def test_what_references_come_to_may_be_no_larger_than_a_definition() -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "long", {"text": "x" * (DEFINITION_MAX_BYTES - 10)})
        await desk.publish("prompts", "longer", {"text": "x" * (DEFINITION_MAX_BYTES + 1)})
        for name in ("long", "longer"):
            config = {"systemPrompt": f"resource://prompts/{name}"}
            refused = await desk.ask("image_create", containerId="c1", config=config)
            assert (refused["errorCode"], "references" in refused["error"]) == ("invalid_input", True)


async def test_the_limit_of_versions_holds_for_the_image_as_a_whole() -> None:
    async with open_desk() as desk:
        for half in ("a", "b"):
            parts = [f"{half}{number}" for number in range(NODES_MAX // 2)]
            for part in parts:
                await desk.publish("prompts", part, {"text": part})
            included = "".join(f"{{{{> resource://prompts/{part}}}}}" for part in parts)
            await desk.publish("prompts", half, {"text": included})
        tools = []
        for half in ("a", "b"):
            await desk.publish("tools", half, {**WEATHER, "description": f"resource://prompts/{half}"})
            tools.append(f"resource://tools/{half}")
        assert (await desk.ask("image_create", containerId="c1", config={"tools": tools[:1]}))["record"]["lock"]
        refused = await desk.ask("image_create", containerId="c1", config={"tools": tools})
        assert refused["errorCode"] == "resource_too_deep"


async def test_a_version_that_was_withdrawn_is_used_with_a_warning() -> None:
    async with open_desk() as desk:
        await desk.publish("prompts", "old", {"text": "be nice"}, deprecated="use new")
        made = await desk.ask("image_create", containerId="c1", config={"systemPrompt": "resource://prompts/old@1.0.0"})
        assert made["warnings"] == ["resource://prompts/old@1.0.0: use new"]


async def test_what_an_asker_says_a_build_came_to_is_not_believed() -> None:
    async with open_desk() as desk:
        forged = {"name": "a", "rendered": {"tools": [{"name": "x", "runtime": "command", "entry": "rm"}]}}
        made = await desk.ask("image_build", containerId="c1", definition=forged)
        assert (await stored(desk, made["record"])).definition.rendered is None


PROMPTS = ("resource://prompts/a", "resource://prompts/a@^1", "resource://prompts/a@1.0.0", "resource://prompts/a@stable", "b")
TOOLS = ("calculator", "resource://tools/adder", "resource://tools/weather@1.x", "resource://tools/weather")
configs = st.builds(
    ImageConfig,
    system_prompt=st.none() | st.sampled_from(PROMPTS),
    definition=st.none() | st.sampled_from(["resource://agents/seller", "resource://agents/seller@1.0.0"]),
    tools=st.none() | st.lists(st.sampled_from(TOOLS), unique=True, max_size=4).map(tuple),
    variables=st.none() | st.just({"who": "Bob"}),
)


@given(config=configs)
@settings(max_examples=examples(15, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_the_same_build_comes_to_the_same_and_its_lock_reproduces_it(config: ImageConfig) -> None:
    async with open_desk() as desk:
        peer, source = desk.peer, Definition(name="x", variables={"who": "Ann"})

        async def publish_all() -> None:
            await desk.publish("prompts", "a", {"text": "{{who}} " + "!" * len(published)}, pointer="stable")
            await desk.publish("tools", "adder", {**ADDER, "description": f"d{len(published)}"})
            await desk.publish("tools", "weather", {**WEATHER, "description": f"d{len(published)}"})
            agent = {"systemPrompt": "resource://prompts/a", "defaults": {"who": f"v{len(published)}"}}
            await desk.publish("agents", "seller", agent)
            published.append(1)

        published: list[int] = []
        await publish_all()
        first = await peer.workspace.builder.freeze(source, config)
        assert await peer.workspace.builder.freeze(source, config) == first
        image, _ = build(
            first.source, config, ContainerId("c"), name="", clock=peer.vm.clock, new_id=peer.workspace.new_id, frozen=first
        )
        assert {uri: entry.version_id for uri, entry in locked_roots(image).items()} == {
            uri: entry.version_id for uri, entry in first.roots.items()
        }
        await publish_all()
        pins = {uri: entry.version_id for uri, entry in locked_roots(image).items()}
        again = await peer.workspace.builder.freeze(first.source, config, pins)
        assert msgspec.json.encode(again.definition) == msgspec.json.encode(first.definition)
        assert (again.lock, again.roots) == (first.lock, first.roots)


async def test_what_others_made_public_is_named_with_its_owner() -> None:
    async with open_desk() as desk:
        await desk.another("acme").publish("prompts", "shared", {"text": "be nice"}, visibility="public")
        record = await desk.create_image(systemPrompt="resource://prompts/acme/shared")
        assert record["lock"][0]["uri"] == "resource://prompts/acme/shared@1.0.0"
        assert (await desk.ask("image_upgrade", imageId=record["imageId"]))["changes"] == []


async def test_what_a_reference_came_to_is_known_though_another_version_lies_behind_its_neighbour() -> None:
    async with open_desk() as desk:
        await desk.publish("tools", "t", WEATHER)
        await desk.publish("tools", "face", {**WEATHER, "entry": "resource://tools/t@1.0.0"})
        await desk.publish("tools", "t", {**WEATHER, "description": "newer"})
        tools = ["resource://tools/face", "resource://tools/t", "resource://tools/t@latest"]
        record = await desk.create_image(tools=tools)
        assert (await desk.ask("image_upgrade", imageId=record["imageId"], dryRun=True))["changes"] == []
        found = locked_roots(await stored(desk, record))
        assert found["resource://tools/t@latest"] == found["resource://tools/t"]


async def test_a_definition_is_checked_against_the_models_and_tools_of_this_server() -> None:
    async with open_desk() as desk:
        check = desk.peer.workspace.builder.check
        await check(Definition(name="a"))
        await check(Definition(name="a", model="scripted/x", tools=("calculator",)))
        await check(Definition(name="a", tools=("calculator", "resource://tools/hammer")))
        with pytest.raises(DriverNotFound, match="scripted"):
            await check(Definition(name="a", model="nobody/x"))
        with pytest.raises(ToolNotFound, match="calculator"):
            await check(Definition(name="a", tools=("calculator", "hammer")))
