from agentvm.drivers.base import ToolSpec
from agentvm.model.message import ToolCall
from agentvm.runtime.tool import Tool, as_described, with_programs
from agentvm.runtime.tools import ServerTools, ToolSet
from agentvm.tools.from_spec import ToolFactory

SCHEMA: dict[str, object] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


async def _run(given: dict[str, object]) -> object:
    return None


READ = Tool(spec=ToolSpec(name="read_file", description="Reads.", input_schema=SCHEMA), run=_run)


def test_a_resource_describes_a_built_in_tool_and_can_only_tighten_it() -> None:
    narrow = {"type": "object", "properties": {"path": {"enum": ["a.txt"]}}}
    spec = {"runtime": "builtin", "entry": "read_file", "description": "Reads a.txt.", "inputSchema": narrow}
    tool = ServerTools([READ]).of_spec({**spec, "effect": "destructive"})
    assert tool is not None
    assert (tool.spec.description, tool.spec.input_schema, tool.effect) == ("Reads a.txt.", narrow, "destructive")
    tools = ToolSet([tool])
    assert tools.misfits(ToolCall(id="c", name="read_file", input={"path": "a.txt"})) == []
    assert tools.misfits(ToolCall(id="c", name="read_file", input={"path": "b.txt"}))
    # What its code needs is checked as well.
    assert tools.misfits(ToolCall(id="c", name="read_file", input={}))
    deleting = Tool(spec=READ.spec, run=_run, effect="destructive", world="open")
    same = as_described(deleting, {"effect": "read", "world": "closed"})
    assert (same.effect, same.world, same.spec, same.also_fits) == ("destructive", "open", READ.spec, None)


def test_a_tool_that_runs_programs_is_described_with_their_tools() -> None:
    program = Tool(spec=READ.spec, run=_run, beside=lambda specs: f"Calls {specs[0].name}.")
    assert with_programs(program, [READ.spec]).spec.description == "Reads.\n\nCalls read_file."
    assert with_programs(program, []) is program


def test_a_resource_that_refers_to_another_tool_cannot_loosen_it() -> None:
    make = ToolFactory(http=None, jobs=None, grants=None, mcp=None).make  # type: ignore[arg-type]  # Nothing is called.
    inner = {"name": "rm", "description": "d", "runtime": "python", "entry": "1", "inputSchema": SCHEMA, "ask": True}
    face = {"name": "face", "description": "d", "runtime": "http", "inputSchema": {"type": "object"}}
    middle = {**face, "entry": "resource://tools/rm@1.0.0", "resolved": {"entry": inner}}
    uris = ("resource://tools/face@2.0.0", "resource://tools/middle@1.0.0")
    wider = {"type": "object", "properties": SCHEMA["properties"]}
    spec = {**face, "uri": uris[0], "entry": uris[1], "inputSchema": wider, "resolved": {"entry": middle}}
    tool = ServerTools([], make=make).of_spec(spec)
    assert tool is not None
    tools = ToolSet([tool])
    facts = tools.facts(ToolCall(id="c", name="face", input={}))
    # A rule about Python applies, and an approval is remembered for exactly these versions.
    assert facts is not None
    assert (facts.runtime, facts.asks, facts.version) == ("python", True, " ".join([*uris, "resource://tools/rm@1.0.0"]))
    assert len(tools.misfits(ToolCall(id="c", name="face", input={"path": 1}))) == 1
    assert not tools.misfits(ToolCall(id="c", name="face", input={"path": "a", "more": 1}))
