from typing import Any

import pytest

from agentvm.errors import InvalidInput
from agentvm.errors.tool import McpCommandNotAllowed
from agentvm.model.tool_settings import McpServerEntry
from agentvm.tools.mcp.settings import McpServerSettings, allowed_server, legacy_entries, server_faults, server_settings

ARGV = ("/usr/bin/node", "/srv/mcp/files.js", "/workspace")
SERVERS = {"files": McpServerSettings(argv=ARGV)}


def faults(**members: Any) -> dict[str, str]:
    return dict(server_faults({"files": McpServerEntry(**members)}))


def test_the_example_of_the_documentation_has_no_fault() -> None:
    assert faults(argv=ARGV, sandbox="resource://sandboxes/node", per="user", secrets=("API_KEY",)) == {}


@pytest.mark.parametrize(
    ("members", "member", "why"),
    [
        ({"argv": ()}, "argv", "whole path"),
        ({"argv": ("node", "x.js")}, "argv", "whole path"),
        ({"argv": ("/usr/bin/npx", "-y", "server")}, "argv", "any program"),
        ({"argv": ("/bin/sh", "-c", "server")}, "argv", "any program"),
        ({"argv": ("/usr/bin/env", "node")}, "argv", "any program"),
        ({"argv": ("/usr/bin/node", "a\0b")}, "argv", "whole path"),
        ({"argv": ARGV, "secrets": ("a b",)}, "secrets", "name of a variable"),
        ({"argv": ARGV, "secrets": ("KEY",), "per": "server"}, "per", "belong to a tenant"),
    ],
)
def test_a_server_that_cannot_be_used_is_named_with_the_fault(members: dict[str, Any], member: str, why: str) -> None:
    (fault,) = faults(**members).items()
    assert fault[0] == f"tools.mcpServers.files.{member}"
    assert why in fault[1]


def test_what_is_not_set_has_a_default() -> None:
    entries = {"a": McpServerEntry(argv=ARGV), "b": McpServerEntry(argv=ARGV, per="tenant", max_kilobytes=8, idle_seconds=5.0)}
    assert server_settings(entries) == {
        "a": McpServerSettings(argv=ARGV),
        "b": McpServerSettings(argv=ARGV, per="tenant", max_bytes=8192, idle_seconds=5.0),
    }


def test_an_id_is_one_that_an_entry_can_name() -> None:
    assert dict(server_faults({"A B": McpServerEntry(argv=ARGV)})).keys() == {"tools.mcpServers.A B"}


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ARGV[:2],
        (*ARGV, ""),
        (*ARGV, "--inspect"),
        ("node", *ARGV[1:]),
        ("/usr/bin/../bin/node", *ARGV[1:]),
        ("/usr/bin/node ", *ARGV[1:]),
        ("/usr/bin/node", "-e", "require('child_process')"),
        ("/usr/bin/node", f"{ARGV[1]} {ARGV[2]}"),
        (ARGV[0], ARGV[2], ARGV[1]),
        ("/usr/bin/node", "/srv/mcp/files.js", "/Workspace"),
        ("/usr/bin/node", "--import=data:text/javascript,evil", *ARGV[1:]),
    ],
)
def test_a_command_that_is_nearly_allowed_is_refused(argv: tuple[str, ...]) -> None:
    with pytest.raises(McpCommandNotAllowed):
        allowed_server(argv, SERVERS)


def test_a_command_that_equals_an_allowed_one_is_its_id() -> None:
    assert allowed_server(ARGV, SERVERS) == "files"
    assert allowed_server(list(ARGV), SERVERS) == "files"


def test_the_servers_of_an_old_image_become_entries_or_are_refused_with_a_reason() -> None:
    raw = {
        "files": {"command": ARGV[0], "args": list(ARGV[1:])},
        "github": {"type": "http", "url": "https://mcp.github.com/mcp"},
    }
    assert legacy_entries(raw, SERVERS) == {"files": "stdio:files", "github": "https://mcp.github.com/mcp"}
    for refused in (
        {"command": "npx", "args": ["-y", "x"]},
        {"command": ARGV[0], "args": list(ARGV[1:]), "env": {"NODE_OPTIONS": "--require=/tmp/x"}},
        {"type": "sse", "url": "https://a.example/sse"},
        {"url": "https://a.example", "headers": {"Authorization": "Bearer x"}},
        {"url": "https://a.example", "command": "x"},
        {},
    ):
        with pytest.raises(McpCommandNotAllowed):
            legacy_entries({"x": refused}, SERVERS)
    with pytest.raises(InvalidInput):
        legacy_entries({"x": {"args": "text"}}, SERVERS)
