import pytest

from agentvm.cli.slash import COMMANDS, HELP, ParsedLine, Suggestion, parse_line, suggest


@pytest.mark.parametrize(
    ("line", "means"),
    [
        (" hello \n", ParsedLine(message="hello")),
        ("", ParsedLine()),
        ("//etc/hosts", ParsedLine(message="/etc/hosts")),
        ("/etc/hosts\nsays what?", ParsedLine(message="/etc/hosts\nsays what?")),
        ("/quit", ParsedLine(command="quit")),
        ("/exit", ParsedLine(command="quit")),
        ("/title  My holidays ", ParsedLine(command="title", argument="My holidays")),
        ("/edit two\nlines", ParsedLine(command="edit", argument="two\nlines")),
        ("/fork", ParsedLine(command="fork")),
        ("/fork 2", ParsedLine(command="fork", argument="2")),
        ("/", ParsedLine(error="unknown command /; /help lists the commands")),
        ("/retry now", ParsedLine(error="/retry takes no argument")),
        ("/attach", ParsedLine(error="/attach needs a file, as in /attach photo.png")),
        ("/search", ParsedLine(error="/search needs words, as in /search dragons")),
    ],
)
def test_a_line_is_a_message_or_a_command(line: str, means: ParsedLine) -> None:
    assert parse_line(line) == means


def test_help_has_a_line_for_every_command() -> None:
    assert [line.split()[0] for line in HELP.splitlines()] == [f"/{command.name}" for command in COMMANDS]


def test_commands_are_suggested_by_their_beginning() -> None:
    assert [one.text for one in suggest("/re", {})] == ["/resume ", "/retry"]
    assert [one.length for one in suggest("/re", {})] == [3, 3]
    assert len(suggest("/", {})) == len(COMMANDS)


@pytest.mark.parametrize("line", ["", "re", "a /re", "/re\nx", "/title a", "/nothing a"])
def test_where_no_command_can_be_nothing_is_suggested(line: str) -> None:
    assert suggest(line, {"resume": [("1", "Dragons")]}) == []


def test_arguments_are_suggested_by_their_beginning_or_by_words_of_their_note() -> None:
    known = {"resume": [("1", "About Dragons"), ("2", "Herons"), ("12", "")], "model": [("openai/gpt", "")]}
    assert [one.text for one in suggest("/resume ", known)] == ["1", "2", "12"]
    assert [one.text for one in suggest("/resume 1", known)] == ["1", "12"]
    assert suggest("/resume drag", known) == [Suggestion("1", 4, "About Dragons")]
    assert suggest("/model OPEN", known) == [Suggestion("openai/gpt", 4)]
