import pytest

from agentvm.errors import ToolFailed
from agentvm.tools.code import CodeTool
from agentvm.tools.from_spec import ToolFactory
from agentvm.tools.http import HttpTool
from agentvm.tools.secrets import Grantee, SecretTool

FACTORY = ToolFactory(http=None, jobs=None, grants=None, mcp=None)  # type: ignore[arg-type]  # Nothing is called.
CODE = {"name": "sum", "description": "Adds.", "runtime": "python", "entry": "def run(): return 1", "inputSchema": {}}


def test_a_code_tool_has_its_sandbox_and_may_be_repeated_only_if_it_reads() -> None:
    sandbox = {"runtime": "python", "env": {"A": "1"}, "files": {"data.txt": "x"}}
    made = FACTORY.make({**CODE, "effect": "read", "timeoutMs": 500, "resolved": {"sandbox": sandbox}})
    assert isinstance(made, CodeTool)
    assert (made.repeat, made.world, made.traits.timeout_seconds) == ("safe", "closed", 0.5)
    assert (made.sandbox.env, made.sandbox.files) == ({"A": "1"}, {"data.txt": b"x"})
    plain = FACTORY.make(CODE)
    assert plain is not None
    assert (plain.effect, plain.repeat) == ("write", "never")


def test_a_face_runs_what_it_refers_to_under_its_own_name() -> None:
    face = {"name": "face", "description": "Mine.", "runtime": "http", "entry": "resource://tools/x@1.0.0", "inputSchema": {}}
    made = FACTORY.make({**face, "resolved": {"entry": {**CODE}}})
    assert isinstance(made, CodeTool)
    assert (made.spec.name, made.spec.description, made.entry) == ("face", "Mine.", "def run(): return 1")


def test_a_tool_that_names_secrets_is_known_to_grants_by_the_id_of_the_resource_that_runs() -> None:
    inner = {**CODE, "secrets": ["KEY"], "resourceId": "res_inner"}
    face = {
        "name": "face",
        "description": "Mine.",
        "runtime": "python",
        "inputSchema": {},
        "uri": "resource://tools/face@1.0.0",
    }
    for spec, grantee in (
        ({**inner, "uri": "resource://tools/zoo/sum@1.2.0"}, Grantee("res_inner", "zoo/sum")),
        ({**inner, "uri": "resource://tools/sum@1.2.0"}, Grantee("res_inner", "sum")),
        (
            {**face, "entry": "resource://tools/zoo/sum@1.0.0", "resolved": {"entry": inner}, "secrets": ["MINE"]},
            Grantee("res_inner", "zoo/sum"),
        ),
    ):
        made = FACTORY.make(spec)
        assert isinstance(made, SecretTool)
        assert (made.grantee, made.names) == (grantee, ("KEY",))


def test_an_http_tool_is_open_to_the_world() -> None:
    made = FACTORY.make({**CODE, "runtime": "http", "entry": "POST https://a.example.org/"})
    assert isinstance(made, HttpTool)
    assert (made.world, made.effect) == ("open", "write")


def test_a_kind_that_this_server_lacks_makes_no_tool() -> None:
    assert FACTORY.make({**CODE, "runtime": "provider"}) is None


def test_a_sandbox_has_its_binary_files_and_an_image_that_lacks_them_is_refused_by_their_names() -> None:
    made = FACTORY.make({**CODE, "resolved": {"sandbox": {"files": {"logo.png": {"data": "AP8="}, "a": "text"}}}})
    assert isinstance(made, CodeTool)
    assert made.sandbox.files == {"logo.png": b"\0\xff", "a": b"text"}
    with pytest.raises(ToolFailed, match=r"logo\.png"):
        FACTORY.make({**CODE, "resolved": {"sandbox": {"files": {"logo.png": {"blob": "sha256:1", "size": 1}}}}})


def test_code_that_reaches_other_servers_is_open_whatever_its_author_says() -> None:
    sandbox = {"runtime": "python", "network": {"mode": "allowlist", "allow": ["example.org"]}}
    inner = {**CODE, "world": "closed", "secrets": ["KEY"], "resolved": {"sandbox": sandbox}}
    made = FACTORY.make(inner)
    assert isinstance(made, SecretTool)
    assert (made.world, made.has_network) == ("open", True)
    alone = FACTORY.make({**CODE, "secrets": ["KEY"]})
    assert isinstance(alone, SecretTool)
    assert (alone.world, alone.has_network) == ("closed", False)
