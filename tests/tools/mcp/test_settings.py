import pytest

from agentvm.errors import ConfigInvalid, InvalidInput
from agentvm.errors.tool import McpCommandNotAllowed
from agentvm.tools.mcp.settings import McpServerSettings, allowed_server, legacy_entries, parse_servers

ARGV = ("/usr/bin/node", "/srv/mcp/files.js", "/workspace")
SERVERS = {"files": McpServerSettings(argv=ARGV)}


def test_the_example_of_the_documentation() -> None:
    servers = parse_servers(
        {
            "files": {
                "argv": list(ARGV), "sandbox": "resource://sandboxes/node", "per": "user", "secrets": [], "idleSeconds": 60,
                "maxBytes": 4194304,
            }
        }
    )  # fmt: skip
    assert servers["files"] == McpServerSettings(argv=ARGV, sandbox="resource://sandboxes/node")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"argv": []}, "argv"),
        ({"argv": ["node", "x.js"]}, "whole path"),
        ({"argv": ["/usr/bin/npx", "-y", "server"]}, "any program"),
        ({"argv": ["/bin/sh", "-c", "server"]}, "any program"),
        ({"argv": ["/usr/bin/env", "node"]}, "any program"),
        ({"argv": ["/usr/bin/node", "a\0b"]}, "whole path"),
        ({"argv": ["/usr/bin/node"], "per": "planet"}, "per"),
        ({"argv": ["/usr/bin/node"], "secrets": ["a b"]}, "name of a variable"),
        ({"argv": ["/usr/bin/node"], "secrets": ["KEY"], "per": "server"}, "belong to a tenant"),
        ({"argv": ["/usr/bin/node"], "command": "x"}, "there is no field command"),
        ({"argv": ["/usr/bin/node"], "maxBytes": 1}, "maxBytes"),
        ("node", "object"),
    ],
)
def test_a_server_that_is_described_wrongly_is_named_with_the_fault(entry: object, why: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"tools\.mcpServers\.files") as error:
        parse_servers({"files": entry})
    assert why in str(error.value)


@pytest.mark.parametrize("raw", [[], "x", {"A B": {}}, {1: {}}, {f"s{n}": {"argv": ["/x"]} for n in range(201)}])
def test_the_setting_is_a_mapping_of_few_ids(raw: object) -> None:
    with pytest.raises(ConfigInvalid):
        parse_servers(raw)


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
