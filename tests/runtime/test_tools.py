import msgspec
from tests.runtime.fixtures import run_tool, tool

from agentvm.blueprint.image import build
from agentvm.model.definition import DEFAULT_TOOLS, Definition, Rendered
from agentvm.model.ids import DEFAULT_TENANT, ContainerId
from agentvm.model.image import Image, ImageConfig
from agentvm.runtime.builtin_tools import builtin_tools
from agentvm.runtime.calls import ToolOutcome
from agentvm.runtime.tools import ServerTools


async def echo(arguments: dict[str, object]) -> object:
    return arguments


async def test_a_tool_that_the_image_does_not_name_is_like_one_nobody_has() -> None:
    source = ServerTools([tool("echo", echo)])
    async with source.open(DEFAULT_TENANT, image_with(())) as tools:
        outcome = await run_tool(tools, "echo")
    assert outcome == ToolOutcome("there is no tool named 'echo'; available: none", True)


async def test_an_image_has_the_tools_that_it_names_and_this_process_has() -> None:
    source = ServerTools([tool("a", echo), tool("b", echo)])
    assert source.names(DEFAULT_TENANT) == ("a", "b")
    for named, offered in ((("b", "nobody"), ["b"]), ((), [])):
        async with source.open(DEFAULT_TENANT, image_with(named)) as tools:
            assert [spec.name for spec in tools.specs] == offered


async def test_an_image_that_names_no_tools_has_the_two_of_today_and_gains_none_by_an_upgrade() -> None:
    # Stored images without tools mean these two: one more here, and every one of them has it.
    assert DEFAULT_TOOLS == ("current_time", "calculator")
    builtin = builtin_tools(lambda: 0)
    for server in (builtin, (*builtin, tool("shell", echo))):
        source = ServerTools(server)
        async with source.open(DEFAULT_TENANT, image_with(None)) as tools:
            assert [spec.name for spec in tools.specs] == ["current_time", "calculator"]
            assert (await run_tool(tools, "shell")).is_error
    assert source.names(DEFAULT_TENANT)[-1] == "shell"


async def test_a_tool_that_an_image_brings_along_stays_its_own_when_the_server_gains_one_of_that_name() -> None:
    brought: dict[str, object] = {"name": "shell", "runtime": "client", "entry": "shell", "description": "of the image"}
    for server in ([], [tool("shell", echo)]):
        image = image_with(("shell",))
        definition = msgspec.structs.replace(image.definition, rendered=Rendered(tools=(brought,)))
        image = msgspec.structs.replace(image, definition=definition)
        async with ServerTools(server).open(DEFAULT_TENANT, image) as tools:
            (found,) = [tools.find(name) for name in tools.names]
        assert found is not None
        assert (found.runtime, found.spec.description) == ("client", "of the image")


def image_with(tools: tuple[str, ...] | None) -> Image:
    definition = Definition(name="a", tools=tools)
    return build(definition, ImageConfig(), ContainerId("c"), name="", clock=lambda: 0, new_id=lambda prefix: f"{prefix}_1")[0]
