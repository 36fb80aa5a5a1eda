from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from agentvm.cli.line_editor import ChatCompleter, LineEditor
from agentvm.cli.slash import Suggestion, suggest

UP = "\x1b[A"


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as source:
        yield source


@pytest.fixture
def typed(keys: PipeInput) -> Callable[..., str]:
    """The message that comes of these keys."""
    editor = LineEditor(lambda line: (), source=keys, output=DummyOutput())
    editor.remember(["the first", "the second"])

    def run(text: str, prefilled: str = "") -> str:
        keys.send_text(text)
        return editor.ask("> ", prefilled)

    return run


@pytest.mark.parametrize(
    ("pressed", "message"),
    [
        ("hello\r", "hello"),
        ("\x1b[200~one\r\ntwo\nthree\x1b[201~\r", "one\ntwo\nthree"),
        ("one\\\rtwo\r", "one\ntwo"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("one\ntwo\r", "one\ntwo"),
        ("你好\r", "你好"),
        (f"{UP}\r", "the second"),
        (f"{UP}{UP}\r", "the first"),
    ],
)
def test_what_the_keys_mean(typed: Callable[..., str], pressed: str, message: str) -> None:
    assert typed(pressed) == message


def test_a_message_can_be_given_for_editing(typed: Callable[..., str]) -> None:
    assert typed(" and inches\r", "in feet") == "in feet and inches"


def test_ctrl_d_and_ctrl_c_are_told_apart(typed: Callable[..., str]) -> None:
    with pytest.raises(EOFError):
        typed("\x04")
    with pytest.raises(KeyboardInterrupt):
        typed("\x03")
    assert typed("half\x03whole\r") == "whole"


def test_keys_left_over_from_the_last_message_are_dropped(typed: Callable[..., str]) -> None:
    assert typed("one\rleft over") == "one"
    assert typed("two\r") == "two"


def test_nothing_is_shown_above_a_prompt_that_is_not_there(keys: PipeInput) -> None:
    shown: list[str] = []
    assert not LineEditor(lambda line: (), source=keys, output=DummyOutput()).show_above(lambda: shown.append("x"))
    assert shown == []


def completions(line: str, suggestions: Callable[[str], list[Suggestion]]) -> list[str]:
    completer = ChatCompleter(suggestions)
    return [one.text for one in completer.get_completions(Document(line, len(line)), CompleteEvent())]


def test_commands_and_their_arguments_are_completed() -> None:
    assert completions("/resu", lambda line: suggest(line, {})) == ["/resume "]
    assert completions("/resume ", lambda line: suggest(line, {"resume": [("1", "Dragons")]})) == ["1"]


def test_files_are_completed_for_attach(tmp_path: Path) -> None:
    (tmp_path / "heron.png").touch()
    assert completions(f"/attach {tmp_path}/her", lambda line: []) == ["on.png"]
