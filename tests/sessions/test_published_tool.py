from typing import Any

import pytest
from tests.operations.fixtures import open_desk

from agentvm.errors.resource import ResourceInvalid
from agentvm.runtime.builtin_tools import builtin_tools
from agentvm.runtime.tools import ServerTools
from agentvm.sessions.published_tool import check_published
from agentvm.vm import system_clock

SANDBOX = "resource://sandboxes/box"
FACE = {"runtime": "http", "entry": "resource://tools/orders"}
CLOCK = {"runtime": "builtin", "entry": "current_time"}


def check(content: dict[str, Any]) -> None:
    check_published(content, ServerTools(builtin_tools(system_clock)).of_spec)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"runtime": "python", "entry": "", "permissions": ["net"]}, "permissions has no effect"),
        ({"runtime": "http", "entry": "https://a.example", "sandbox": SANDBOX}, "on a tool with the runtime http"),
        ({**CLOCK, "sandbox": SANDBOX}, "sandbox has no effect on a tool with the runtime builtin"),
        ({"runtime": "client", "entry": "pick", "sandbox": SANDBOX}, "sandbox has no effect on a tool with the runtime client"),
        ({**FACE, "effect": "read"}, "effect has no effect: it is that of resource://tools/orders"),
        ({**FACE, "sandbox": SANDBOX}, "sandbox has no effect: it is that of"),
        ({**CLOCK, "effect": "destructive"}, "that of the built-in tool current_time is read"),
        ({**CLOCK, "world": "open"}, "that of the built-in tool current_time is closed"),
        ({**CLOCK, "repeat": "never"}, "that of the built-in tool current_time is safe"),
        ({**CLOCK, "timeoutMs": 5}, "that of the built-in tool current_time is 60000"),
        ({**CLOCK, "outputSchema": {}}, "that of the built-in tool current_time is none"),
    ],
)  # fmt: skip
def test_a_member_without_effect_is_refused(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ResourceInvalid, match=message):
        check(content)


@pytest.mark.parametrize(
    "content",
    [
        {"runtime": "python", "entry": "", "sandbox": SANDBOX},
        {**CLOCK, "effect": "read", "world": "closed", "repeat": "safe", "timeoutMs": 60_000, "ask": True},
        {"runtime": "builtin", "entry": "of_another_server", "effect": "destructive"},
        {**FACE, "ask": True},
    ],
)
def test_members_with_an_effect_are_accepted(content: dict[str, Any]) -> None:
    check(content)


async def test_publishing_checks_a_tool() -> None:
    async with open_desk() as desk:
        content = {**CLOCK, "description": "d", "inputSchema": {"type": "object"}, "effect": "write"}
        refused = await desk.ask("resource_register", type="tools", name="clock", content=content)
        assert refused["errorCode"] == "resource_invalid"
