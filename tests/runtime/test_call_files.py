"""Files in turns: calls that write come one after the other, and a file is stored exactly when the result of its call is."""

import anyio
import pytest
from tests.runtime.fixtures import World, open_world, tool, types

from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.errors.file import FileMissing, FilePathInvalid
from agentvm.errors.tool import WorkspaceFull
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.limits import Limits
from agentvm.model.message import ErrorTextOutput, TextOutput, ToolResultMessage
from agentvm.runtime import calls
from agentvm.runtime.tools import Tool
from agentvm.storage.sql import file_changes
from agentvm.storage.sql.session_files import SessionFileStore
from agentvm.tools.base import CallContext, CallResult, Outcome


async def append(given: dict[str, object], context: CallContext) -> Outcome:
    """Reads, waits, writes: what two calls at once would get wrong."""
    assert context.files is not None
    try:
        before = await context.files.read("log.txt")
    except FileMissing:
        before = b""
    await anyio.lowlevel.checkpoint()
    await context.files.write("log.txt", before + str(given["text"]).encode())
    return CallResult(type="text", value="ok")


async def remove(given: dict[str, object], context: CallContext) -> Outcome:
    assert context.files is not None
    return CallResult(type="json", value=await context.files.delete("/workspace/log.txt"))


async def refuse(given: dict[str, object], context: CallContext) -> Outcome:
    files = context.files
    assert files is not None
    await files.write("dir/inner", b"1")
    with pytest.raises(FilePathInvalid):
        await files.write("dir", b"2")
    with pytest.raises(FilePathInvalid):
        await files.write("dir/inner/deeper", b"2")
    with pytest.raises(FilePathInvalid):
        await files.read("../secret")
    with pytest.raises(WorkspaceFull, match="Delete files"):
        await files.write_all({"x": bytes(60), "y": bytes(60)})
    with pytest.raises(WorkspaceFull):
        await files.write_all({"a": b"", "b": b"", "c": b"", "d": b""})
    await files.write("x", bytes(60))
    await files.delete("x")
    await files.write("y", bytes(60))
    return CallResult(type="json", value=[file.path for file in await files.list()])


async def move(given: dict[str, object], context: CallContext) -> Outcome:
    """Moves a file as a program does, whose changes are taken over when it has ended: the old one first."""
    assert context.files is not None
    await context.files.delete("log.txt")
    await context.files.write("moved.txt", bytes(101))
    raise AssertionError("too many bytes were written")


async def never(given: dict[str, object]) -> object:
    raise AssertionError("called without a context")


def writing(name: str, call: object) -> Tool:
    return Tool(spec=tool(name, never).spec, run=never, call=call, writes_files=True, world="closed")  # type: ignore[arg-type]


TOOLS = [writing("append", append), writing("remove", remove), writing("refuse", refuse), writing("move", move)]


def files_of(world: World) -> SessionFileStore:
    return world.store.tenant(DEFAULT_TENANT).container(world.image.container_id).files(world.image.session_id)


async def contents(world: World) -> dict[str, bytes | None]:
    files = files_of(world)
    return {file.path: await files.read_all(file.digest) for file in await files.list()}


async def test_calls_of_one_step_write_in_their_order_and_see_each_others_files() -> None:
    calls: list[tuple[str, str, dict[str, object]]] = [(f"c{number}", "append", {"text": f"{number} "}) for number in range(8)]
    asked = tool_calls(*calls)
    async with open_world(ScriptedDriver(in_turn(asked, reply("done"))), tools=TOOLS) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        assert await contents(world) == {"log.txt": b"0 1 2 3 4 5 6 7 "}
        told = [event for event in heard if event["type"] == "file_written"]
        assert [event["data"]["size"] for event in told] == [2, 4, 6, 8, 10, 12, 14, 16]
        assert [told[0][name] for name in ("source", "category", "intent")] == ["sandbox", "workdir", "result"]
        assert set(told[0]["data"]) == {"path", "size", "timestamp", "digest"}
        assert "files_changed" not in types(heard)


async def test_a_deleted_file_is_told_and_gone() -> None:
    asked = tool_calls(("c0", "append", {"text": "x"}), ("c1", "remove", {}), ("c2", "remove", {}))
    async with open_world(ScriptedDriver(in_turn(asked, reply("done"))), tools=TOOLS) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        assert [event["data"]["path"] for event in heard if event["type"] == "file_deleted"] == ["log.txt"]
        assert [event["data"]["result"] for event in heard if event["type"] == "tool_completed"] == ["ok", True, False]
        assert await contents(world) == {}


async def test_limits_and_names_hold_within_one_call() -> None:
    limits = Limits(session_files=3, session_files_bytes=100)
    driver = ScriptedDriver(in_turn(tool_calls(("c0", "refuse", {})), reply("done")))
    async with open_world(driver, tools=TOOLS, limits=limits) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        (result,) = [event["data"]["result"] for event in heard if event["type"] == "tool_completed"]
        assert result == ["dir/inner", "y"]
        assert set(await contents(world)) == {"dir/inner", "y"}


async def test_a_call_that_fails_halfway_changes_no_file() -> None:
    calls: list[tuple[str, str, dict[str, object]]] = [("c0", "append", {"text": "x"}), ("c1", "move", {})]
    driver = ScriptedDriver(in_turn(tool_calls(*calls), reply("done")))
    async with open_world(driver, tools=TOOLS, limits=Limits(session_files_bytes=100)) as world:
        await world.say(world.start(), "go")
        heard = await world.hear("turn_response")
        assert "file_deleted" not in types(heard)
        assert await contents(world) == {"log.txt": b"x"}


async def test_earlier_states_of_a_file_are_bounded() -> None:
    asked = [tool_calls((f"c{number}", "append", {"text": str(number)})) for number in range(6)]
    async with open_world(ScriptedDriver(in_turn(*asked, reply("done"))), tools=TOOLS, limits=Limits(file_versions=2)) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        assert await contents(world) == {"log.txt": b"012345"}
        container = world.store.tenant(DEFAULT_TENANT).container(world.image.container_id)
        deltas = await container.files(world.image.session_id).versions("log.txt", 10)
        # The present state, and two before it.
        assert [change.size for delta in deltas for change in delta.changes] == [6, 5, 4]


async def test_a_commit_that_is_refused_leaves_result_and_file_together() -> None:
    """Whatever commit fails, a file is there if and only if the result of its call is."""
    seen = set()
    for refused in range(2, 7):
        driver = ScriptedDriver(in_turn(tool_calls(("c0", "append", {"text": "x"})), reply("done")))
        async with open_world(driver, tools=TOOLS, fails=refused.__eq__) as world:
            await world.say(world.start(), "go")
            await world.hear("turn_response")
            results = [message for message in await world.messages() if isinstance(message, ToolResultMessage)]
            succeeded = any(isinstance(message.tool_result.output, TextOutput) for message in results)
            assert succeeded == bool(await contents(world))
            seen.add(succeeded)
    assert seen == {True, False}


async def test_a_file_whose_commit_failed_is_there_with_its_result() -> None:
    refused, wrote = list[int](), list[bool]()

    async def append_and_tell(given: dict[str, object], context: CallContext) -> Outcome:
        outcome = await append(given, context)
        wrote.append(True)
        return outcome

    def fails(number: int) -> bool:
        if wrote and not refused:
            refused.append(number)
            return True
        return False

    asked = tool_calls(("c1", "append", {"text": "kept"}))
    tools = [writing("append", append_and_tell)]
    async with open_world(ScriptedDriver(in_turn(asked, reply("done"))), tools=tools, fails=fails) as world:
        await world.say(world.start(), "go")
        await world.hear("turn_response")
        assert (len(refused), await contents(world)) == (1, {"log.txt": b"kept"})
        assert any(isinstance(message, ToolResultMessage) for message in await world.messages())


async def test_a_result_that_can_never_be_stored_does_not_keep_its_turn_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_changes, "_FIND_BLOB", f"{file_changes._FIND_BLOB} AND 1 = 0")
    answers = in_turn(tool_calls(("c1", "append", {"text": "gone"})), reply("fine"))
    async with open_world(ScriptedDriver(answers), tools=TOOLS) as world:
        agent = world.start()
        await world.say(agent, "go")
        await world.hear("turn_response")
        (result,) = [message for message in await world.messages() if isinstance(message, ToolResultMessage)]
        assert result.tool_result.output == ErrorTextOutput(value=calls.STOPPED)
        await world.say(agent, "again")
        await agent.rest()
        assert [turn.outcome for turn in await world.turns()] == ["failed", "completed"]
