"""Tools that an image brings along: built from resources, called in a turn, each in its own way."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.support.web import Asked, Replied, web

from agentvm.drivers.base import ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.tool_settings import ToolNetwork, ToolSearchSettings, ToolSettings
from agentvm.tools.metered_jobs import MeteredJobs

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@asynccontextmanager
async def turn(content: Mapping[str, object], call_input: dict[str, object]) -> AsyncIterator[tuple[Desk, ScriptedDriver]]:
    """A desk whose agent has one tool of the resource centre, and calls it."""
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "mine", call_input)), reply("done")))
    network = ToolSettings(network=ToolNetwork(allow=("127.0.0.1",)))
    async with open_desk(driver, tool_settings=network) as desk:
        await desk.publish("tools", "mine", {"description": "Mine.", **content})
        image = await desk.create_image(tools=["resource://tools/mine"])
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        yield desk, driver


async def result(content: Mapping[str, object], call_input: dict[str, object]) -> tuple[str, str]:
    """The type and the text of what the model was told."""
    async with turn(content, call_input) as (desk, driver):
        await desk.hear("turn_response")
        told = driver.prompts[1].conversation[-1]
        assert isinstance(told, ToolResultsEntry)
        (one,) = told.results
        return one.output.type, one.output.text


async def test_an_http_tool_asks_its_server_and_the_model_hears_the_picked_part() -> None:
    asked: list[Asked] = []

    def serve(request: Asked) -> Replied:
        asked.append(request)
        return Replied(body=json.dumps({"data": {"price": 7}}).encode(), headers={"Content-Type": "application/json"})

    async with web(serve) as server:
        content = {
            "runtime": "http",
            "entry": f"GET http://127.0.0.1:{server.port}/prices/{{n}}",
            "inputSchema": NUMBER,
            "effect": "read",
            "http": {"pick": "/data"},
        }
        assert await result(content, {"n": 3}) == ("json", '{"price":7}')
        assert [request.target for request in asked] == ["/prices/3"]


async def test_the_answer_of_a_server_is_checked_against_the_schema() -> None:
    async with web(lambda asked: Replied(body=b'{"id":"x"}', headers={"Content-Type": "application/json"})) as server:
        content = {
            "runtime": "http",
            "entry": f"GET http://127.0.0.1:{server.port}/",
            "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}},
            "effect": "read",
        }
        kind, text = await result(content, {})
        assert (kind, "does not fit its outputSchema" in text, '{"id":"x"}' in text) == ("error-text", True, True)


async def test_a_python_tool_runs_in_a_sandbox() -> None:
    content = {
        "runtime": "python",
        "entry": "def run(n):\n    return {'twice': 2 * n}",
        "inputSchema": NUMBER,
    }
    assert await result(content, {"n": 21}) == ("json", '{"twice":42}')


async def test_a_shell_tool_has_its_input_as_variables_and_never_in_its_text() -> None:
    words = {"type": "object", "properties": {"word": {"type": "string"}}}
    content = {"runtime": "shell", "entry": 'echo "<$ARG_WORD>"', "inputSchema": words}
    assert await result(content, {"word": "$(id); `id`"}) == ("text", "<$(id); `id`>\n")


async def test_a_command_fills_its_arguments_without_a_shell() -> None:
    words = {"type": "object", "properties": {"word": {"type": "string"}}}
    content = {"runtime": "command", "entry": '["echo", "a {word}"]', "inputSchema": words}
    assert await result(content, {"word": "b; id"}) == ("text", "a b; id\n")


async def test_code_that_fails_is_told_with_the_end_of_what_it_wrote() -> None:
    content = {"runtime": "python", "entry": "def run(n):\n    raise ValueError(n)", "inputSchema": NUMBER}
    kind, text = await result(content, {"n": 1})
    assert (kind, "ValueError: 1" in text) == ("error-json", True)


async def test_an_input_that_does_not_fit_is_told_and_nothing_runs() -> None:
    content = {"runtime": "python", "entry": "def run(n):\n    return n", "inputSchema": NUMBER}
    kind, text = await result(content, {"n": "one"})
    assert (kind, "The input does not fit" in text) == ("error-text", True)


@pytest.mark.parametrize(
    ("content", "schema"),
    [
        ({"runtime": "python", "entry": "def run(n):\n    return n"}, {"type": "integer", "maximum": 9}),
        ({"runtime": "shell", "entry": 'echo "$ARG_N"'}, {"type": "string", "maxLength": 2}),
        ({"runtime": "command", "entry": '["echo", "{n}"]'}, {"type": "string", "maxLength": 2}),
    ],
)
async def test_the_result_of_code_is_checked_against_its_schema(content: dict[str, Any], schema: dict[str, Any]) -> None:
    tool = {**content, "inputSchema": NUMBER, "outputSchema": schema}
    assert not (await result(tool, {"n": 7}))[0].startswith("error")
    kind, text = await result(tool, {"n": 10})
    assert (kind, "does not fit its outputSchema" in text) == ("error-text", True)


async def test_a_built_in_tool_waits_for_an_approval_where_its_resource_wants_it() -> None:
    content = {"runtime": "builtin", "entry": "calculator", "inputSchema": {"type": "object"}, "ask": True}
    call = tool_calls(("c1", "calculator", {"expression": "1+1"}))
    driver = ScriptedDriver(in_turn(call, reply("done"), call, reply("done")))
    async with open_desk(driver) as desk:
        await desk.publish("tools", "careful", {"description": "d", **content})
        image = await desk.create_image(tools=["calculator", "resource://tools/careful"])
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        assert [tool.name for tool in driver.prompts[0].tools] == ["calculator"]
        (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
        assert wait["kind"] == "approval"
        about = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"]}
        await desk.ask("tool_answer", **about, decision="approve")
        await desk.hear("turn_response")
        # Another image is not concerned.
        other = await desk.create_image(tools=["calculator"])
        await desk.ask("message_send", imageId=other["imageId"], content="go")
        await desk.hear("turn_response")


async def test_the_answer_of_a_client_is_checked_against_the_schema() -> None:
    content = {"runtime": "client", "entry": "pick", "inputSchema": NUMBER, "outputSchema": {"type": "string"}}
    async with turn(content, {"n": 1}) as (desk, driver):
        await desk.hear("turn_parked")
        (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
        about = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"]}
        await desk.ask("tool_answer", **about, decision="answer", result=5)
        await desk.hear("turn_response")
        told = driver.prompts[1].conversation[-1]
        assert isinstance(told, ToolResultsEntry)
        assert "does not fit its outputSchema" in told.results[0].output.text


async def test_a_tool_of_the_client_waits_for_the_client() -> None:
    async with turn({"runtime": "client", "entry": "pick", "inputSchema": NUMBER}, {"n": 1}) as (desk, _):
        await desk.hear("turn_parked")
        (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
        assert wait["kind"] == "client"
        about = {"waitId": wait["waitId"], "fingerprint": wait["fingerprint"]}
        assert "errorCode" not in await desk.ask("tool_answer", **about, decision="answer", result=5)
        await desk.hear("turn_response")


async def test_writing_to_the_world_is_asked_about() -> None:
    async with web(lambda asked: Replied(body=b"ok")) as server:
        content = {"runtime": "http", "entry": f"POST http://127.0.0.1:{server.port}/", "inputSchema": NUMBER}
        async with turn(content, {"n": 1}) as (desk, _):
            await desk.hear("turn_parked")
            (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
            assert wait["why"] == "default rule 2: open, write"


@pytest.mark.parametrize("secrets", [["KEY"]])
async def test_a_secret_that_nobody_has_granted_is_refused(secrets: list[str]) -> None:
    async with web(lambda asked: Replied(body=b"ok")) as server:
        content = {
            "runtime": "http",
            "entry": f"GET http://127.0.0.1:{server.port}/",
            "inputSchema": NUMBER,
            "effect": "read",
            "secrets": secrets,
            "http": {"headers": {"Authorization": "Bearer ${secret:KEY}"}},
        }
        kind, text = await result(content, {"n": 1})
        assert (kind, "The secret KEY is not granted" in text) == ("error-text", True)


async def test_an_agent_reads_a_page_of_the_web() -> None:
    page = b"<html><title>Tea</title><body><script>x</script><p>Green &amp; black.</p></body></html>"
    async with web(lambda asked: Replied(body=page, headers={"Content-Type": "text/html"})) as server:
        driver = ScriptedDriver(in_turn(tool_calls(("c1", "web_fetch", {"url": server.url("/tea")})), reply("done")))
        network = ToolSettings(network=ToolNetwork(allow=("127.0.0.1",)))
        async with open_desk(driver, tool_settings=network) as desk:
            image = await desk.create_image(tools=["web_fetch"])
            await desk.ask("message_send", imageId=image["imageId"], content="go")
            await desk.hear("turn_response")
            told = driver.prompts[1].conversation[-1]
            assert isinstance(told, ToolResultsEntry)
            assert "Green & black." in told.results[0].output.text


async def test_web_search_is_there_only_with_a_search_engine() -> None:
    async with open_desk() as desk:
        refused = await desk.ask("image_create", containerId="c1", config={"tools": ["web_search"]})
        assert refused["errorCode"] == "tool_not_found"
    search = ToolSettings(search=ToolSearchSettings(engine="searxng", url="http://127.0.0.1:9/search"))
    async with open_desk(tool_settings=search) as desk:
        assert "errorCode" not in await desk.ask("image_create", containerId="c1", config={"tools": ["web_search"]})


async def code_result(call_input: dict[str, object], name: str = "run_python", **config: Any) -> tuple[Desk, dict[str, Any]]:
    """The result of one call of a built-in that runs code, by an agent that names it."""
    driver = ScriptedDriver(in_turn(tool_calls(("c1", name, call_input)), reply("done")))
    async with open_desk(driver) as desk:
        if "sandbox" in config:
            await desk.publish("sandboxes", "box", {"runtime": "python", **config["sandbox"]})
            config["sandbox"] = "resource://sandboxes/box"
        image = await desk.create_image(tools=[name], **config)
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_response")
        told = driver.prompts[1].conversation[-1]
        assert isinstance(told, ToolResultsEntry)
        return desk, json.loads(told.results[0].output.text)


async def test_an_agent_runs_python_without_asking_anybody() -> None:
    _, result = await code_result({"code": "print('hi')\nprint(1/0)"})
    assert (result["exitCode"], result["stdout"]) == (1, "hi\n")
    assert "ZeroDivisionError" in result["stderr"]


async def test_an_agent_runs_a_script_in_the_sandbox_of_its_image() -> None:
    box = {"env": {"GREETING": "hello"}, "files": {"words.txt": "one\ntwo\n"}}
    script = 'echo "$GREETING"; wc -l < words.txt; echo new > made.txt'
    _, result = await code_result({"script": script}, "run_shell", sandbox=box)
    assert (result["stdout"].split(), result["files"]) == (["hello", "2"], ["made.txt"])


async def test_code_with_a_network_waits_for_an_approval() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "run_python", {"code": "1"})), reply("done")))
    async with open_desk(driver) as desk:
        network = {"mode": "allowlist", "allow": ["example.org"]}
        await desk.publish("sandboxes", "box", {"runtime": "python", "network": network})
        image = await desk.create_image(tools=["run_python"], sandbox="resource://sandboxes/box")
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_parked")
        (wait,) = (await desk.ask("tool_waits", state="open"))["waits"]
        assert wait["why"] == "default rule 2: open, write"


async def test_a_machine_without_sandboxes_says_so_and_models_do_not_see_the_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    async def missing(jobs: MeteredJobs, engine: str) -> str:
        return f"no {engine} here: use Linux 5.13"

    monkeypatch.setattr(MeteredJobs, "why_missing", missing)
    driver = ScriptedDriver(in_turn(reply("done")))
    async with open_desk(driver) as desk:
        own = {"js": ("javascript", "1", "javascript"), "log": ("command", '["git", "log"]', "binary:git")}
        for name, (runtime, entry, _) in own.items():
            content = {"description": "Own.", "runtime": runtime, "entry": entry, "inputSchema": {"type": "object"}}
            await desk.publish("tools", name, content)
        config = {"tools": ["run_python", "calculator", *(f"resource://tools/{name}" for name in own)]}
        built = await desk.ask("image_create", containerId="c1", config=config)
        engines = {"run_python": "python"} | {name: engine for name, (*_, engine) in own.items()}
        assert built["warnings"] == [
            f"{name} cannot run on this machine, and models do not see it: no {engine} here: use Linux 5.13"
            for name, engine in engines.items()
        ]
        await desk.ask("message_send", imageId=built["record"]["imageId"], content="go")
        await desk.hear("turn_response")
        assert [spec.name for spec in driver.prompts[0].tools] == ["calculator"]
