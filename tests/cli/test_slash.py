import pytest

from agentvm.cli.slash import COMMANDS, HELP, Spoken, Suggestion, read, suggest


@pytest.mark.parametrize(
    ("line", "means"),
    [
        (" hello \n", Spoken(message="hello")),
        ("", Spoken()),
        ("//etc/hosts", Spoken(message="/etc/hosts")),
        ("/etc/hosts\nsays what?", Spoken(message="/etc/hosts\nsays what?")),
        ("/quit", Spoken(command="quit")),
        ("/exit", Spoken(command="quit")),
        ("/title  My holidays ", Spoken(command="title", argument="My holidays")),
        ("/edit two\nlines", Spoken(command="edit", argument="two\nlines")),
        ("/fork", Spoken(command="fork")),
        ("/fork 2", Spoken(command="fork", argument="2")),
        ("/", Spoken(wrong="there is no command /; /help lists them")),
        ("/retry now", Spoken(wrong="/retry stands alone, without 'now'")),
        ("/attach", Spoken(wrong="/attach needs a file, as in /attach photo.png")),
        ("/search", Spoken(wrong="/search needs words, as in /search dragons")),
    ],
)
def test_a_line_is_a_message_or_a_command(line: str, means: Spoken) -> None:
    assert read(line) == means


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
