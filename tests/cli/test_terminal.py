import io
from collections.abc import Callable, Iterator, Sequence

import anyio.from_thread
import pytest
from anyio.from_thread import BlockingPortal
from tests.support.serving import Play

from agentvm import AgentX, ScriptedDriver, ServerConfig, create_agentx, local_runtime
from agentvm.cli.chat import part_of
from agentvm.cli.chat_commands import ChatBackend
from agentvm.cli.chat_session import ChatSession
from agentvm.cli.screen import Screen
from agentvm.cli.slash import HELP, KEYS
from agentvm.cli.terminal import Terminal
from agentvm.config import MEMORY, SystemSettings

Line = str | Callable[[], str]
Chat = Callable[..., int]
NOWHERE = ChatBackend(part_of=lambda file, container_id: part_of(file, None, None, container_id))


class Typed(io.StringIO):
    """Lines as they come: a function does something first."""

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__()
        self._coming = iter(lines)

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override]  # io.IOBase says bytes, also for text
        line = next(self._coming, None)
        return "" if line is None else f"{line if isinstance(line, str) else line()}\n"


@pytest.fixture
def portal() -> Iterator[BlockingPortal]:
    with anyio.from_thread.start_blocking_portal("asyncio") as opened:
        yield opened


@pytest.fixture
def agentx(portal: BlockingPortal) -> Iterator[AgentX]:
    source = local_runtime(
        ServerConfig(system=SystemSettings(data_dir=MEMORY, shutdown_seconds=0)), drivers={"scripted": ScriptedDriver(Play())}
    )
    with portal.wrap_async_context_manager(create_agentx(source)) as opened:
        yield opened


@pytest.fixture
def chat(portal: BlockingPortal, agentx: AgentX, monkeypatch: pytest.MonkeyPatch) -> Chat:
    """Types lines into one chat whose answers go into a file; returns its exit code."""

    def run(*lines: Line) -> int:
        conversation = ChatSession(agentx, container_id="c1")
        portal.call(conversation.open, None)
        monkeypatch.setattr("sys.stdin", Typed(lines))
        return Terminal(portal, conversation, Screen(live=False), NOWHERE, live=False).run()

    return run


def test_lines_are_answered_and_blank_ones_are_not_sent(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat("hello there", "", "   ", "and you?") == 0
    assert capsys.readouterr().out == "hello there\nand you?\n"


def test_two_slashes_send_one(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat("//etc/hosts") == 0
    assert capsys.readouterr().out == "/etc/hosts\n"


def test_sessions_are_named_listed_and_resumed(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat("one", "/title The first", "/new", "two", "/sessions", "/resume 2", "/history") == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0:2] == ["one", "two"]
    assert out[2].endswith("  two")
    assert out[3].endswith("  The first")
    assert out[4:] == ["1> one", "one"]


def test_a_session_can_be_resumed_without_listing_first(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat("one", "/resume 1", "/history") == 0
    assert capsys.readouterr().out == "one\n1> one\none\n"


def test_help_is_given(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat("/help") == 0
    assert capsys.readouterr().out == f"{HELP}\n\n{KEYS}\n"


@pytest.mark.parametrize("command", ["/quit", "/exit"])
def test_nothing_is_read_after_leaving(chat: Chat, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert chat(command, "unheard") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("/fly", "unknown command /fly; /help lists the commands"),
        ("/resume 9", "session 9 does not exist; /sessions lists them"),
        ("/resume", "/resume needs a number, as in /resume 2; /sessions lists them"),
        ("/resume x", "/resume needs a number, as in /resume 2; /sessions lists them"),
        ("/title", "/title needs a text, as in /title Holidays"),
        ("/new age", "/new takes no argument"),
    ],
)
def test_a_wrong_command_says_what_is_wrong_and_the_chat_goes_on(
    chat: Chat, capsys: pytest.CaptureFixture[str], command: str, error: str
) -> None:
    assert chat(command, "still here") == 1
    said = capsys.readouterr()
    assert said.out == "still here\n"
    assert said.err.startswith(f"Error: {error}\n")


def test_a_session_without_a_word_can_be_resumed_and_named(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat("/resume 1") == 0
    assert capsys.readouterr().err == "Continuing an empty session; /history shows it.\n"


def test_one_message_is_sent_whole_and_its_slashes_are_text(
    portal: BlockingPortal, agentx: AgentX, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation = ChatSession(agentx, container_id="c1")
    portal.call(conversation.open, None)
    terminal = Terminal(portal, conversation, Screen(live=False), NOWHERE, live=False)
    assert terminal.answer("/help me\nwith this") == 0
    assert capsys.readouterr().out == "/help me\nwith this\n"
    assert terminal.answer("fail") == 1


def test_a_failed_turn_is_exit_code_1(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat("fail", "next") == 1
    said = capsys.readouterr()
    assert said.out == "next\n"
    assert "Error: the model is overloaded" in said.err


def test_what_the_server_refuses_is_told_and_the_chat_goes_on(
    chat: Chat, portal: BlockingPortal, agentx: AgentX, capsys: pytest.CaptureFixture[str]
) -> None:
    def delete_images() -> str:
        for image in portal.call(agentx.images.list, "c1"):
            portal.call(agentx.images.delete, image.image_id)
        return "into the void"

    assert chat("one", delete_images, "/new", "two") == 1
    said = capsys.readouterr()
    assert said.out == "one\ntwo\n"
    assert "Error: Image not found" in said.err
