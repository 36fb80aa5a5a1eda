import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
from tests.support.mcp_process import SERVER, plain_process

from agentvm.errors import ToolFailed
from agentvm.tools.base import (
    CallContext,
    Caller,
    CallProgress,
    CallResult,
    InputRequired,
    Question,
    QuestionAnswer,
    Resumption,
)
from agentvm.tools.mcp import connection as module
from agentvm.tools.mcp.connection import McpConnection, dial_process

CONTEXT = CallContext(key="turn_1/call_1", caller=Caller("acme", "alice"), deadline=0)


@asynccontextmanager
async def connected(
    *mode: str, shared: bool = False, on_list_changed: Callable[[], None] = lambda: None
) -> AsyncIterator[McpConnection]:
    """A session with a real process, and its end."""
    dial = dial_process(lambda: plain_process(sys.executable, "-I", str(SERVER), *mode))
    connection = McpConnection("files", dial, shared=shared, on_list_changed=on_list_changed)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            await connection.ready.wait()
            try:
                yield connection
            finally:
                connection.kill()
        assert connection.ended.is_set()


async def call(connection: McpConnection, tool: str, context: CallContext = CONTEXT, **input: object) -> object:
    return await connection.call(tool, input, context, keyed=False)


@pytest.mark.parametrize(("mode", "version"), [(("good",), "2026-07-28"), (("good", "legacy"), "2025-06-18")])
async def test_both_generations_of_servers_are_spoken_to(mode: tuple[str, ...], version: str) -> None:
    heard: list[CallProgress] = []
    context = CallContext(key="k", caller=CONTEXT.caller, deadline=0, progress=heard.append)
    async with connected(*mode) as connection:
        assert connection.version == version
        reading = await connection.list_tools()
        assert [tool.name for tool in reading.tools][:3] == ["echo", "helper", "add"]
        assert await call(connection, "echo", text="héllo 你好") == CallResult(type="text", value="héllo 你好")
        assert await call(connection, "add", a=1, b=2) == CallResult(type="json", value={"sum": 3})
        assert await call(connection, "fails") == CallResult(type="error-text", value="no such file")
        assert await call(connection, "steps", context) == CallResult(type="text", value="done")
        with pytest.raises(ToolFailed, match=r"refused the call: over quota\[31m$"):
            await call(connection, "refuses")
    assert [progress.message for progress in heard] == ["step 0", "step 1", "step 2"]
    assert heard[2].total == 3


async def test_a_server_says_that_its_list_has_changed() -> None:
    changed = anyio.Event()
    async with connected("good", "legacy", on_list_changed=changed.set) as connection:
        await call(connection, "changes")
        await changed.wait()


async def test_the_key_goes_along_when_the_tool_is_keyed() -> None:
    async with connected("good") as connection:
        keyed = await connection.call("whoami", {}, CONTEXT, keyed=True)
        plain = await connection.call("whoami", {}, CONTEXT, keyed=False)
    assert isinstance(keyed, CallResult)
    assert isinstance(plain, CallResult)
    assert isinstance(keyed.value, dict)
    assert isinstance(plain.value, dict)
    assert (keyed.value["key"], plain.value["key"]) == ("turn_1/call_1", None)
    assert "HOME" not in keyed.value["env"]


async def test_a_question_is_an_outcome_and_another_process_can_answer_it() -> None:
    async with connected("good") as connection:
        asked = await call(connection, "ask")
    assert isinstance(asked, InputRequired)
    assert asked.questions["colour"].message == "Which colour?"
    answer = QuestionAnswer(action="accept", content={"colour": "red"})
    answered = CallContext(
        key="k", caller=CONTEXT.caller, deadline=0, resumption=Resumption(answers={"colour": answer}, state=asked.state)
    )
    async with connected("good") as restarted:
        result = await call(restarted, "ask", answered)
    assert isinstance(result, CallResult)
    assert '"red"' in str(result.value)


async def test_a_state_that_has_expired_is_asked_anew_once() -> None:
    expired = CallContext(key="k", caller=CONTEXT.caller, deadline=0, resumption=Resumption(answers={}, state="long ago"))
    async with connected("good") as connection:
        assert isinstance(await call(connection, "ask", expired), InputRequired)


async def test_an_older_server_asks_while_the_call_is_open_and_is_declined_when_nobody_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Question] = []

    async def ask(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer(action="accept", content={"colour": "blue"})

    async def nobody(question: Question) -> QuestionAnswer:
        await anyio.sleep_forever()
        raise AssertionError

    person = CallContext(key="k", caller=CONTEXT.caller, deadline=0, ask=ask)
    absent = CallContext(key="k", caller=CONTEXT.caller, deadline=0, ask=nobody)
    monkeypatch.setattr(module, "ANSWER_TIMEOUT_SECONDS", 0.05)
    async with connected("good", "legacy") as connection:
        result = await call(connection, "ask", person)
        declined = await call(connection, "ask", absent)
    assert isinstance(result, CallResult)
    assert isinstance(declined, CallResult)
    assert '"blue"' in str(result.value)
    assert "decline" in str(declined.value)
    assert asked[0].message == "Which colour?"
    async with connected("good", "legacy", shared=True) as everybodys:
        result = await call(everybodys, "ask", person)
    assert isinstance(result, CallResult)
    assert "decline" in str(result.value)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("crash-call", "has ended"),
        ("flood", "too many messages"),
        ("huge", "more than 4194304 bytes"),
        ("nonsense", "not MCP"),
        ("sampling", "model calls"),
    ],
)
async def test_a_hostile_server_fails_the_call_and_nothing_else(mode: str, why: str) -> None:
    async with connected(mode) as connection:
        with pytest.raises(ToolFailed, match=why) as error:
            await call(connection, "echo", text="x")
    assert "secret path" not in str(error.value)


@pytest.mark.parametrize(("mode", "why"), [("crash", "has ended"), ("noise", "not messages")])
async def test_a_server_that_never_starts_is_an_ending_with_a_cause(mode: str, why: str) -> None:
    async with connected(mode) as connection:
        assert why in str(connection.ending())
        with pytest.raises(ToolFailed, match=why):
            await call(connection, "echo")


async def test_a_server_that_hangs_at_the_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_SECONDS", 0.3)
    async with connected("hang") as connection:
        assert connection.ended.is_set()
        assert "did not introduce itself" in str(connection.ending())


async def test_logs_on_stdout_are_passed_over() -> None:
    async with connected("junk") as connection:
        assert await call(connection, "echo", text="x") == CallResult(type="text", value="x")


@pytest.mark.parametrize("mode", ["hang-call", "liar", "good"])
async def test_a_cancelled_call_ends_at_once_and_a_server_that_answers_none_is_replaced(mode: str) -> None:
    async with connected(mode) as connection:
        for count in range(module.ABANDONED_MAX):
            assert connection.usable, count
            with anyio.move_on_after(0.1) as deadline:
                await call(connection, "slow")
            assert deadline.cancelled_caught
        assert not connection.usable


async def test_a_server_that_does_not_even_list_its_tools_is_replaced() -> None:
    async with connected("hang-call") as connection:
        with anyio.move_on_after(0.1):
            await call(connection, "slow")
        for count in range(1, module.ABANDONED_MAX):
            assert connection.usable, count
            with anyio.move_on_after(0.1) as deadline:
                await connection.list_tools()
            assert deadline.cancelled_caught
        assert not connection.usable


async def test_a_refusal_is_an_answer_so_a_server_that_gives_one_is_kept() -> None:
    async with connected("good") as connection:
        for _ in range(2):
            for _ in range(module.ABANDONED_MAX - 1):
                with anyio.move_on_after(0.1):
                    await call(connection, "slow")
            assert connection.usable
            with pytest.raises(ToolFailed, match="refused the call"):
                await call(connection, "refuses")


async def test_a_hung_call_does_not_hold_the_others_up() -> None:
    async with connected("good") as connection, anyio.create_task_group() as tasks:
        tasks.start_soon(call, connection, "slow")
        for number in range(20):
            assert await call(connection, "echo", text=str(number)) == CallResult(type="text", value=str(number))
        assert connection.usable
        tasks.cancel_scope.cancel()


async def test_a_closed_connection_says_so() -> None:
    async with connected("good") as connection:
        connection.close()
        await connection.ended.wait()
        assert connection.failure is None
        with pytest.raises(ToolFailed, match="was closed"):
            await call(connection, "echo")
