"""Fixtures — prompts and settings the driver tests share."""

import base64

from tests.support.provider import ScriptedProvider

from agentvm.drivers.base import (
    AssistantEntry,
    ConversationEntry,
    DriverSettings,
    Prompt,
    ToolResultsEntry,
    ToolSpec,
    UserEntry,
)
from agentvm.drivers.failures import Failures
from agentvm.model.message import (
    ContentOutput,
    ErrorTextOutput,
    FilePart,
    ImagePart,
    LinkPart,
    TextOutput,
    TextPart,
    ToolCall,
    ToolResult,
)
from agentvm.model.secret import Secret

KEY = "sk-test-1234567890abcdef"

FAILURES = Failures(provider="p", remedy_key="check KEY", remedy_reach="check the network", secret=Secret(KEY))

WEATHER = ToolSpec(name="weather", description="The weather", input_schema={"type": "object", "properties": {}})
CLOCK = ToolSpec(name="clock", description="The time", input_schema={"type": "object", "properties": {}})


def settings(provider: ScriptedProvider, *, timeout: float = 30.0, max_retries: int = 0, path: str = "") -> DriverSettings:
    return DriverSettings(
        api_key=Secret(KEY), base_url=provider.base_url + path, model="m", timeout=timeout, max_retries=max_retries
    )


def prompt(
    *said: ConversationEntry,
    system: str | None = None,
    tools: tuple[ToolSpec, ...] = (),
    thinking: int | None = None,
    temperature: float | None = None,
    tool_choice: str | None = None,
) -> Prompt:
    return Prompt(
        model="m",
        conversation=said or (UserEntry(content="hi"),),
        max_tokens=100,
        system=system,
        tools=tools,
        thinking=thinking,
        temperature=temperature,
        tool_choice=tool_choice,
    )


def called(*calls: tuple[str, str], text: str = "") -> AssistantEntry:
    return AssistantEntry(text=text, tool_calls=tuple(ToolCall(id=id, name=name, input={"a": 1}) for id, name in calls))


def answered(call_id: str, value: str, *, failed: bool = False) -> ToolResultsEntry:
    output = ErrorTextOutput(value=value) if failed else TextOutput(value=value)
    return ToolResultsEntry(results=(ToolResult(id=call_id, name="weather", output=output),))


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


EVERY_PART = (
    TextPart(text="look"),
    ImagePart(data="aGk=", media_type="image/png"),
    ImagePart(data="https://example.test/a.png", media_type="image/png"),
    FilePart(data="cGRm", media_type="application/pdf", filename="a.pdf"),
    FilePart(data=base64_of("notes"), media_type="text/plain", filename="a.txt"),
)


def answered_with_pictures(*call_ids: str) -> ToolResultsEntry:
    """Results with a text, a picture, a file and an address each."""
    parts = (
        TextPart(text="A plot."),
        ImagePart(data="aGk=", media_type="image/png"),
        FilePart(data="emlw", media_type="application/zip", filename="a.zip"),
        LinkPart(uri="https://example.test/more"),
    )
    results = (ToolResult(id=call_id, name="plot", output=ContentOutput(value=parts)) for call_id in call_ids)
    return ToolResultsEntry(results=tuple(results))
