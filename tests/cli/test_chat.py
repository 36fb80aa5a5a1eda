import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.cli.program import ASKING, WAIT, Keyboard, at_terminal, environment, run_avm, running
from tests.support.serving import Play, Served, provide_tools, serving

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.cli.chat import part_of, server_url
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.base import ModelOutput, Prompt, ToolResultsEntry, UserEntry
from agentvm.drivers.scripted import in_turn, last_user_text, reply, tool_calls
from agentvm.model.message import FilePart, ImagePart, TextPart
from agentvm.runtime.tools import tool_of
from agentvm.tools.builtin.ask_user import AskUser

CTRL_C, CTRL_D = "\x03", "\x04"


class StubbornDriver(ScriptedDriver):
    """Is told to stop, and does not before its gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.told = anyio.Event()
        self.gate = anyio.Event()

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        try:
            await anyio.sleep_forever()
        finally:
            self.told.set()
            with anyio.CancelScope(shield=True):
                await self.gate.wait()
        async for output in super().run(prompt):
            yield output

    @asynccontextmanager
    async def released(self) -> AsyncIterator[None]:
        """Opens the gate at the end, whatever happens: otherwise its server could not end either."""
        try:
            yield
        finally:
            self.gate.set()


@pytest.fixture
async def served(anyio_backend: str) -> AsyncIterator[Served]:
    async with serving(Play()) as running_server:
        yield running_server


async def say(keyboard: Keyboard, text: str) -> None:
    await keyboard.see(ASKING)
    keyboard.press(f"{text}\r")


async def test_a_pipe_gets_the_answer_and_nothing_else(served: Served, tmp_path: Path) -> None:
    env = environment(tmp_path)
    async with running("chat", "--url", served.http, env=env, errors=tmp_path / "errors", given="tool\n") as chat:
        assert [await chat.line() for _ in range(2)] == ["Let me check.", "It is done."]
        assert await chat.wait() == 0
        assert '[calculator] {"expression":"2+3*4"} → 14\n' in chat.errors
        assert "\x1b" not in chat.errors


async def test_a_system_prompt_starts_a_session_that_has_it(served: Served, tmp_path: Path) -> None:
    env = environment(tmp_path)
    arguments = ("chat", "--url", served.url, "--system", "Answer in French.")
    async with running(*arguments, env=env, errors=tmp_path / "errors", given="hello") as chat:
        assert await chat.wait() == 0
    assert served.model.prompts[0].system == "Answer in French."


async def test_an_agent_goes_on_and_options_that_would_change_its_image_are_refused(served: Served, tmp_path: Path) -> None:
    env = environment(tmp_path)
    await served.running.agentx.resources.register("agents", "pirate", {"systemPrompt": "You are a pirate."})
    uri = "resource://agents/pirate"
    for _ in range(2):
        async with at_terminal("chat", "--url", served.url, "--agent", uri, env=env) as keyboard:
            await say(keyboard, "ahoy")
            await keyboard.see("1 out")
            await say(keyboard, "/quit")
            assert await keyboard.wait() == 0
    assert [len(prompt.conversation) for prompt in served.model.prompts] == [1, 3]
    assert served.model.prompts[0].system == "You are a pirate."
    (image,) = await served.running.agentx.images.list("default")
    arguments = ("chat", "--url", served.url, "--agent", image.image_id)
    async with running(*arguments, "--model", "scripted/x", env=env, errors=tmp_path / "errors", given="hi") as chat:
        assert await chat.wait() == 1
        assert "An image has its own model" in chat.errors
    async with running(*arguments, env=env, errors=tmp_path / "errors", given="hi") as chat:
        assert await chat.wait() == 0
    assert len(served.model.prompts[-1].conversation) == 1
    assert served.model.prompts[-1].system == "You are a pirate."


async def test_files_go_with_the_first_message(served: Served, tmp_path: Path) -> None:
    env = environment(tmp_path)
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    (tmp_path / "b.txt").write_text("notes")
    files = ("--attach", str(tmp_path / "a.png"), "--attach", str(tmp_path / "b.txt"))
    async with running("chat", "--url", served.http, *files, env=env, errors=tmp_path / "errors", given="see") as chat:
        assert await chat.wait() == 0, chat.errors
    assert served.model.prompts[0].conversation[0] == UserEntry(
        content=(
            ImagePart(data="iVBORw==", media_type="image/png", name="a.png"),
            FilePart(data="bm90ZXM=", media_type="text/plain", filename="b.txt"),
            TextPart(text="see"),
        )
    )


def test_a_pipe_does_not_wait_for_the_line_editor_to_load() -> None:
    look = "import sys, agentvm.cli.chat; sys.exit('prompt_toolkit' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], timeout=WAIT, check=False).returncode == 0


def test_without_a_server_a_file_is_in_the_message_itself(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    assert part_of(tmp_path / "a.png", None, None, "c") == ImagePart(data="iVBORw==", media_type="image/png", name="a.png")


async def test_all_of_a_pipe_is_one_message_in_a_session_of_its_own(served: Served, tmp_path: Path) -> None:
    env = environment(tmp_path)
    for text in ("one\n/two\n\n", "three"):
        async with running("chat", "--url", served.url, env=env, errors=tmp_path / "errors", given=text) as chat:
            assert await chat.wait() == 0
    assert [len(prompt.conversation) for prompt in served.model.prompts] == [1, 1]
    assert last_user_text(served.model.prompts[0]) == "one\n/two"
    (_, first) = await served.running.agentx.images.list("default")
    arguments = ("chat", "--url", served.url, "--session", first.session_id)
    async with running(*arguments, env=env, errors=tmp_path / "errors", given="four\n") as chat:
        assert await chat.line() == "four"
        assert await chat.wait() == 0
        assert f"(session {first.session_id})" in chat.errors
    assert len(served.model.prompts[-1].conversation) == 3


async def test_an_answer_that_the_end_of_the_server_cut_is_exit_code_1(tmp_path: Path) -> None:
    async with serving(Play()) as server:
        chat = running("chat", "--url", server.url, env=environment(tmp_path), errors=tmp_path / "errors", given="slow\n")
        program = await chat.__aenter__()
        assert await program.until("w1 ") == "w0 "
    try:
        assert await program.wait() == 1
        assert "(interrupted" in program.errors
    finally:
        await chat.__aexit__(None, None, None)


def test_an_empty_pipe_is_wrong_usage(tmp_path: Path) -> None:
    done = run_avm("chat", "--local", env=environment(tmp_path), given=" \n")
    assert (done.returncode, done.stdout) == (2, "")
    assert not (tmp_path / ".agentvm").exists()


async def test_ctrl_c_stops_an_answer_and_the_chat_goes_on(served: Served, tmp_path: Path) -> None:
    async with at_terminal("chat", "--url", served.url, env=environment(tmp_path)) as keyboard:
        await say(keyboard, "slow")
        await keyboard.see("w0 w1")
        keyboard.press(CTRL_C)
        await keyboard.see("(interrupted")
        await say(keyboard, "and now?")
        await keyboard.see("2 out")
        await keyboard.see(ASKING)
        keyboard.press(CTRL_D)
        assert await keyboard.wait() == 0


async def test_ctrl_c_twice_stops_waiting_for_an_answer_that_does_not_stop(tmp_path: Path) -> None:
    model = StubbornDriver()
    async with start_server(
        ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, shutdown_seconds=0)), drivers={"scripted": model}
    ) as server:
        async with at_terminal("chat", "--url", server.ws_url, env=environment(tmp_path)) as keyboard, model.released():
            await say(keyboard, "hello")
            await keyboard.see("thinking")
            keyboard.press(CTRL_C)
            with anyio.fail_after(WAIT):
                await model.told.wait()
            keyboard.press(CTRL_C)
            await keyboard.see("Stopped waiting")
            await say(keyboard, "/quit")
            assert await keyboard.wait() == 0


async def test_ctrl_c_in_a_pipe_stops_the_answer_and_the_program(served: Served, tmp_path: Path) -> None:
    env = environment(tmp_path)
    async with running("chat", "--url", served.url, env=env, errors=tmp_path / "errors", given="slow\n") as chat:
        assert await chat.until("w1 ") == "w0 "
        chat.send_signal(signal.SIGINT)
        assert await chat.wait() == 130
        assert "(interrupted" in chat.errors
    assert served.model.closed_early == 1


async def test_ctrl_c_at_the_prompt_leaves_the_second_time(served: Served, tmp_path: Path) -> None:
    async with at_terminal("chat", "--url", served.url, env=environment(tmp_path)) as keyboard:
        await keyboard.see(ASKING)
        keyboard.press(f"half a line{CTRL_C}")
        keyboard.press(f"another{CTRL_C}")
        keyboard.press(CTRL_C)
        await keyboard.see("Press Ctrl-C again")
        await keyboard.see(ASKING)
        keyboard.press(CTRL_C)
        assert await keyboard.wait() == 0
    assert served.model.prompts == []


async def test_a_paste_is_one_message_and_so_are_lines_that_end_with_a_backslash(served: Served, tmp_path: Path) -> None:
    async with at_terminal("chat", "--url", served.url, env=environment(tmp_path)) as keyboard:
        await say(keyboard, "\x1b[200~/etc\rtwo\rthree\x1b[201~")
        await keyboard.see(" out")
        await say(keyboard, "one\\\rtwo\x1b\rthree\nfour")
        await keyboard.see(" out")
        await keyboard.see(ASKING)
        keyboard.press(CTRL_D)
        assert await keyboard.wait() == 0
    assert [last_user_text(prompt) for prompt in served.model.prompts] == ["/etc\ntwo\nthree", "one\ntwo\nthree\nfour"]


async def test_keys_pressed_during_an_answer_are_neither_shown_nor_sent(tmp_path: Path) -> None:
    play = Play()
    async with serving(play) as server, at_terminal("chat", "--url", server.url, env=environment(tmp_path)) as keyboard:
        await say(keyboard, "slow")
        await keyboard.see("w0 w1")
        assert not keyboard.echoes()
        keyboard.press("MEANWHILE\r")
        play.gate.set()
        shown = await keyboard.see(ASKING)
        assert "w2" in shown
        keyboard.press("next\r")
        shown += await keyboard.see("1 out")
        await keyboard.see(ASKING)
        keyboard.press(CTRL_D)
        assert await keyboard.wait() == 0
        assert keyboard.echoes()
        assert "MEANWHILE" not in shown
    assert [last_user_text(prompt) for prompt in server.model.prompts] == ["slow", "next"]


async def test_markdown_is_for_people_and_a_pipe_gets_the_text(served: Served, tmp_path: Path) -> None:
    env = environment(tmp_path)
    async with running("chat", "--url", served.url, env=env, errors=tmp_path / "errors", given="**b** `c`") as chat:
        assert await chat.line() == "**b** `c`"
        assert await chat.wait() == 0
    for more, shown in (({}, "\x1b[1mb\x1b[0m \x1b[36mc\x1b[0m"), ({"NO_COLOR": "1"}, "\x1b[K**b** `c`")):
        async with at_terminal("chat", "--url", served.url, env=environment(tmp_path, **more)) as keyboard:
            await say(keyboard, "**b** `c`")
            await keyboard.see(shown)
            await say(keyboard, "/quit")
            assert await keyboard.wait() == 0


async def test_the_last_message_is_offered_for_editing(served: Served, tmp_path: Path) -> None:
    async with at_terminal("chat", "--url", served.url, env=environment(tmp_path)) as keyboard:
        await say(keyboard, "in feet")
        await keyboard.see("2 out")
        await say(keyboard, "/edit")
        await keyboard.see(ASKING)
        keyboard.press(" and inches\r")
        await keyboard.see(" out")
        await say(keyboard, "/edit")
        await keyboard.see(ASKING)
        keyboard.press(CTRL_C)
        await keyboard.see("Nothing was changed.")
        await say(keyboard, "/quit")
        assert await keyboard.wait() == 0
    assert [last_user_text(prompt) for prompt in served.model.prompts] == ["in feet", "in feet and inches"]
    assert len(served.model.prompts[-1].conversation) == 1


async def test_a_person_is_told_which_session_goes_on(served: Served, tmp_path: Path) -> None:
    env = environment(tmp_path)
    async with running("chat", "--url", served.url, env=env, errors=tmp_path / "errors", given="about dragons\n") as chat:
        assert await chat.wait() == 0
    async with at_terminal("chat", "--url", served.url, env=env) as keyboard:
        await keyboard.see("Continuing “about dragons” (2 messages")
        await say(keyboard, "/quit")
        assert await keyboard.wait() == 0


async def test_calls_that_wait_since_before_are_asked_about_and_a_pipe_names_each_with_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = tool_calls(("c1", "ask_user", {"question": "Which colour?"}), ("c2", "ask_user", {"question": "Which size?"}))
    provide_tools(monkeypatch, tool_of(AskUser()))
    env, errors = environment(tmp_path), tmp_path / "errors"
    async with serving(in_turn(asks, reply("As you like."))) as served:
        async with running("chat", "--url", served.url, env=env, errors=errors, given="a coat\n") as chat:
            assert await chat.wait() == 1
        assert errors.read_text().count(" answer --result JSON") == 2
        async with at_terminal("chat", "--url", served.url, env=env) as keyboard:
            await keyboard.see("Which colour?")
            keyboard.press("green\r")
            await keyboard.see("Which size?")
            keyboard.press(CTRL_D)
            await keyboard.see("ask_user waits:")
            await say(keyboard, "/resume 1")
            await keyboard.see("Which size?")
            keyboard.press("42\r")
            await keyboard.see("As you like.")
            await say(keyboard, "/quit")
            assert await keyboard.wait() == 0
    results = served.model.prompts[-1].conversation[-1]
    assert isinstance(results, ToolResultsEntry)
    assert ["green" in str(results.results[0].output), "42" in str(results.results[1].output)] == [True, True]


async def test_a_lost_connection_and_its_return_are_announced(tmp_path: Path) -> None:
    async with serving(Play(), data_dir=tmp_path / "data") as before:
        port = before.port
        chat = at_terminal("chat", "--url", before.url, env=environment(tmp_path))
        keyboard = await chat.__aenter__()
        await say(keyboard, "one")
        await keyboard.see("1 out")
        await keyboard.see(ASKING)
    try:
        await keyboard.see("Connection lost; reconnecting…")
        async with serving(Play(), data_dir=tmp_path / "data", port=port):
            await keyboard.see("Reconnected.")
            await say(keyboard, "two")
            await keyboard.see("1 out")
            await keyboard.see(ASKING)
            keyboard.press(CTRL_D)
            assert await keyboard.wait() == 0
    finally:
        await chat.__aexit__(None, None, None)


def test_without_a_server_it_says_how_to_start_one(tmp_path: Path) -> None:
    done = run_avm("chat", "--url", "ws://127.0.0.1:9/ws", env=environment(tmp_path), given="hello\n")
    assert (done.returncode, done.stdout) == (3, "")
    assert "avm serve --port 9" in done.stderr
    assert "avm chat --local" in done.stderr


async def test_without_a_server_it_can_run_here_and_remembers(tmp_path: Path) -> None:
    env = environment(tmp_path)
    assert run_avm("chat", "--local", env=env, given="hello\n").stdout == "hello\n"
    async with at_terminal("chat", "--local", "--data-dir", str(tmp_path / ".agentvm"), env=env) as keyboard:
        await keyboard.see("Continuing “hello” (2 messages")
        await say(keyboard, "/quit")
        assert await keyboard.wait() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--local", "--url", "ws://x/ws"],
        ["--session", "s", "--model", "m"],
        ["--session", "s", "--agent", "a"],
        ["--session", "s", "--system", "t"],
        ["--system", " "],
        ["--data-dir", "d"],
    ],
)
def test_flags_that_contradict_each_other_are_wrong_usage(arguments: list[str], tmp_path: Path) -> None:
    assert run_avm("chat", *arguments, env=environment(tmp_path)).returncode == 2


@pytest.mark.parametrize(
    ("given", "url"),
    [
        (None, "ws://127.0.0.1:8080/ws"),
        ("localhost:9000", "ws://localhost:9000/ws"),
        ("http://localhost:9000/", "ws://localhost:9000/ws"),
        ("https://example.test", "wss://example.test/ws"),
        ("wss://example.test/agents/ws", "wss://example.test/agents/ws"),
    ],
)
def test_the_address_a_server_prints_is_understood(given: str | None, url: str) -> None:
    assert server_url(given) == url
