from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import anyio.from_thread
import click
import pytest
from anyio.from_thread import BlockingPortal

from agentvm import AgentX, ScriptedDriver, ServerConfig, create_agentx, local_runtime
from agentvm.cli.chat import part_of
from agentvm.cli.chat_commands import ChatBackend, ChatCommands, file_name, path_of
from agentvm.cli.chat_session import ChatSession
from agentvm.cli.screen import Screen
from agentvm.config import MEMORY, SessionSettings, SystemSettings
from agentvm.drivers.base import UserEntry
from agentvm.drivers.demo import NOTICE
from agentvm.drivers.scripted import last_user_text
from agentvm.errors import InvalidInput
from agentvm.model.message import FilePart, TextPart
from agentvm.protocol.link import WireEvent


def no_models() -> tuple[str, ...]:
    raise click.ClickException("you may not see them")


class Desk:
    """One chat, and somebody who answers its questions with `reply`."""

    def __init__(self, portal: BlockingPortal, agentx: AgentX, model: ScriptedDriver) -> None:
        self._portal = portal
        self.model = model
        self.chat = ChatSession(agentx, container_id="c1")
        portal.call(self.chat.open, None)
        self.reply: str | None = ""
        self.asked: list[tuple[str, str]] = []
        self.models: Callable[[], tuple[str, ...]] = lambda: ("scripted/other", "scripted/scripted")
        self.commands = self._commands(ask=self._ask)
        self.alone = self._commands(ask=None)

    def _commands(self, ask: Callable[[str, str], str | None] | None) -> ChatCommands:
        backend = ChatBackend(part_of=lambda file, _: part_of(file, None, None, ""), models=lambda: self.models())
        return ChatCommands(self._portal, self.chat, Screen(live=False), backend, answer=self.answer, ask=ask)

    def _ask(self, question: str, prefilled: str) -> str | None:
        self.asked.append((question, prefilled))
        return self.reply

    def answer(self, events: Callable[[], AsyncGenerator[WireEvent, None]]) -> None:
        async def wait() -> None:
            async with aclosing(events()) as arriving:
                async for _ in arriving:
                    pass

        self._portal.call(wait)

    def say(self, text: str) -> None:
        self.answer(lambda: self.chat.send(text))

    def count(self) -> int:
        return len(self._portal.call(self.chat.messages))

    def learn(self) -> None:
        self._portal.call(self.commands.fetch_sessions)
        self._portal.call(self.commands.fetch_models)


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with anyio.from_thread.start_blocking_portal("asyncio") as opened:
        yield opened


@pytest.fixture
def desk(portal: BlockingPortal) -> Iterator[Desk]:
    model = ScriptedDriver()
    source = local_runtime(
        ServerConfig(system=SystemSettings(data_dir=MEMORY, shutdown_seconds=0), sessions=SessionSettings(titles="off")),
        drivers={"scripted": model},
    )
    with portal.wrap_async_context_manager(create_agentx(source)) as agentx:
        yield Desk(portal, agentx, model)


def test_a_fork_has_what_was_said_up_to_a_message_and_the_session_stays(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("one", "two", "three"):
        desk.say(text)
    before = desk.chat.session.session_id
    desk.commands.run("fork", "2")
    assert desk.chat.session.session_id != before
    assert desk.count() == 4
    desk.commands.run("fork", "")
    assert desk.count() == 4
    with pytest.raises(InvalidInput, match="message 9 does not exist"):
        desk.commands.run("fork", "9")
    desk.commands.run("fork", "x")
    assert "Error: /fork takes a message number" in capsys.readouterr().err


def test_nothing_can_be_forked_edited_or_made_anew_before_anything_was_said(desk: Desk) -> None:
    for command in ("fork", "edit", "retry"):
        with pytest.raises(InvalidInput, match="has no messages"):
            desk.commands.run(command, "")


def test_the_last_message_is_edited_and_keeps_its_files(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("notes")
    desk.commands.run("attach", str(tmp_path / "a.txt"))
    desk.say("in feet")
    desk.reply = "in metres"
    desk.commands.run("edit", "")
    assert desk.asked == [("edit> ", "in feet")]
    assert desk.count() == 2
    assert desk.model.prompts[-1].conversation == (
        UserEntry(content=(FilePart(data="bm90ZXM=", media_type="text/plain", filename="a.txt"), TextPart(text="in metres"))),
    )
    desk.commands.run("edit", "in miles")
    assert last_user_text(desk.model.prompts[-1]) == "in miles"


def test_an_edit_that_is_given_up_changes_nothing(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.say("in feet")
    desk.reply = None
    desk.commands.run("edit", "")
    desk.alone.run("edit", "")
    assert len(desk.model.prompts) == 1
    assert "Nothing was changed.\nError: /edit needs a text" in capsys.readouterr().err


def test_an_answer_is_made_anew(desk: Desk) -> None:
    desk.say("one")
    desk.commands.run("retry", "")
    assert desk.count() == 2
    assert [last_user_text(prompt) for prompt in desk.model.prompts] == ["one", "one"]


def test_another_model_answers_from_the_next_message_on(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.commands.run("model", "")
    assert capsys.readouterr() == ("scripted/scripted\n", "Available: scripted/other. To change: /model NAME\n")
    desk.commands.run("model", "scripted/other")
    desk.say("one")
    desk.commands.run("new", "")
    desk.say("two")
    assert [prompt.model for prompt in desk.model.prompts] == ["other", "other"]
    assert "Model changed to scripted/other.\n" in capsys.readouterr().err
    desk.models = no_models
    desk.commands.run("model", "")
    assert capsys.readouterr() == ("scripted/other\n", "To change: /model NAME\n")


def test_what_was_found_is_opened_by_its_number(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.say("about dragons")
    dragons = desk.chat.session.session_id
    desk.commands.run("new", "")
    desk.say("about <b>herons</b>")
    desk.commands.run("search", "dragons")
    assert "about dragons\n" in capsys.readouterr().out
    desk.commands.run("resume", "1")
    assert desk.chat.session.session_id == dragons
    desk.commands.run("search", "herons")
    assert "about <b>herons</b>\n" in capsys.readouterr().out
    desk.commands.run("search", "unicorns")
    assert "No matches." in capsys.readouterr().err


def test_sessions_and_models_are_known_for_completion(desk: Desk) -> None:
    desk.say("about dragons")
    assert desk.commands.completions() == {"resume": [], "model": []}
    desk.learn()
    assert desk.commands.completions() == {
        "resume": [("1", "about dragons")],
        "model": [("scripted/other", ""), ("scripted/scripted", "")],
    }


def test_a_session_is_written_as_markdown_and_no_file_is_replaced_unasked(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    desk.say("about dragons")
    desk.commands.run("export", "")
    path = tmp_path / "about-dragons.md"
    page = path.read_text()
    assert "# about dragons\n" in page
    assert "## User\n\nabout dragons\n\n## Assistant\n\nabout dragons\n" in page
    path.write_text("mine")
    for reply in ("", None, "n"):
        desk.reply = reply
        desk.commands.run("export", str(tmp_path))
    desk.alone.run("export", str(path))
    assert path.read_text() == "mine"
    assert "choose another name" in capsys.readouterr().err
    desk.reply = "y"
    desk.commands.run("export", str(path))
    assert path.read_text() == page


def test_a_file_that_is_not_there_is_told(desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desk.commands.run("attach", str(tmp_path / "none.png"))
    assert capsys.readouterr().err == f"Error: file not found: {tmp_path / 'none.png'}\n"


def test_the_demo_model_is_announced_when_it_begins_to_answer(
    desk: Desk, portal: BlockingPortal, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.commands.show_demo_notice()
    assert capsys.readouterr().err == ""
    desk.commands.run("model", "scripted/smollm2-135m")
    desk.commands.show_demo_notice()
    assert capsys.readouterr().err.count(NOTICE) == 1


@pytest.mark.parametrize("written", ["{}", "'{}'", '"{}"'])
def test_a_file_is_found_as_terminals_write_it(tmp_path: Path, written: str) -> None:
    (tmp_path / "two words.png").touch()
    assert path_of(written.format(tmp_path / "two words.png")) == tmp_path / "two words.png"
    assert path_of(str(tmp_path / "two words.png").replace(" ", "\\ ")) == tmp_path / "two words.png"
    assert path_of("it's") == Path("it's")


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Dragons & Co.", "Dragons-Co.md"),
        ("龙的故事", "龙的故事.md"),
        ("../../etc", "etc.md"),
        ("", "session.md"),
        ("x" * 99, "x" * 60 + ".md"),
    ],
)
def test_a_title_becomes_a_harmless_file_name(title: str, name: str) -> None:
    assert file_name(title) == name
