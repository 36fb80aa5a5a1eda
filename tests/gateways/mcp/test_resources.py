from typing import Any

import msgspec
import pytest
from mcp.shared.exceptions import MCPError
from tests.gateways.mcp.fixtures import ERAS, calling, management

PROMPT: dict[str, Any] = {
    "type": "prompts",
    "name": "greeting",
    "description": "Greets",
    "content": {
        "text": "Hello {{who}}, {{times}} times, {{tone}}, {{loose}}",
        "variables": {
            "type": "object",
            "properties": {
                "who": {"type": "string", "description": "Whom"},
                "times": {"type": "integer"},
                "tone": {"type": "string", "default": "warmly"},
            },
            "required": ["who", "times"],
        },
    },
}


@pytest.mark.parametrize("mode", ERAS)
async def test_prompts_are_listed_with_their_arguments_and_rendered(mode: str) -> None:
    async with calling(mode=mode) as (client, served):
        await management(served, "POST", "/v1/resources", PROMPT)
        listed = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        greeting = listed["greeting"]
        assert greeting.description == "Greets"
        assert {argument.name: argument.required for argument in greeting.arguments or ()} == {
            "who": True, "times": True, "tone": False, "loose": True,
        }  # fmt: skip
        rendered = await client.get_prompt("greeting", {"who": "Ada", "times": "3", "loose": "so"})
        assert rendered.messages[0].content.text == "Hello Ada, 3 times, warmly, so"  # type: ignore[union-attr]
        for arguments in ({"who": "Ada"}, {"who": "Ada", "times": "often", "loose": "so"}):
            with pytest.raises(MCPError) as failure:
                await client.get_prompt("greeting", arguments)
            assert failure.value.code == -32602
        shipped = next(name for name in listed if "/" in name)
        assert (await client.get_prompt(shipped)).messages


@pytest.mark.parametrize("mode", ERAS)
async def test_resources_are_read_as_they_are(mode: str) -> None:
    async with calling(mode=mode) as (client, served):
        await management(served, "POST", "/v1/resources", PROMPT)
        agent = {"type": "agents", "name": "helper", "content": {"systemPrompt": "Be kind"}}
        await management(served, "POST", "/v1/resources", agent)
        listed = await client.list_resources()
        assert {"resource://prompts/greeting", "resource://agents/helper"} <= {resource.uri for resource in listed.resources}
        prompt = (await client.read_resource("resource://prompts/greeting@1.0.0")).contents[0]
        assert (prompt.mime_type, prompt.text) == ("text/markdown", PROMPT["content"]["text"])  # type: ignore[union-attr]
        content = (await client.read_resource("resource://agents/helper")).contents[0]
        assert msgspec.json.decode(content.text)["systemPrompt"] == "Be kind"  # type: ignore[union-attr]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["session://{id}"]
        for uri in (
            "resource://prompts/nothing",
            "session://sess_nobody",
            "resource://prompts/greeting@9.0.0",
            "https://x.example/",
        ):
            with pytest.raises(MCPError) as failure:
                await client.read_resource(uri)
            assert failure.value.code == -32602
        assert "ask_helper" in {tool.name for tool in (await client.list_tools()).tools}
