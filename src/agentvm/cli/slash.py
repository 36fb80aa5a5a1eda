"""Slash commands — names, arguments and parsing of the commands of a chat. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

MARK = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A command of the chat. `example` is shown when its argument is missing."""

    name: str
    text: str
    argument: str = ""
    takes: Literal["nothing", "something", "maybe"] = "nothing"
    example: str = ""

    @property
    def usage(self) -> str:
        return f"{MARK}{self.name} {self.argument}".rstrip()


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand(name="sessions", text="list the sessions of this container"),
    SlashCommand(name="search", argument="WORDS", takes="something", example="/search dragons", text="search sessions"),
    SlashCommand(
        name="resume",
        argument="N",
        takes="something",
        example="/resume 2; /sessions lists them",
        text="continue session N of the last list",
    ),
    SlashCommand(name="new", text="start a new session"),
    SlashCommand(name="title", argument="TEXT", takes="something", example="/title Holidays", text="name this session"),
    SlashCommand(name="history", text="show the messages, yours numbered"),
    SlashCommand(
        name="fork", argument="[N]", takes="maybe", text="continue in a copy of this session, up to the answer to message N"
    ),
    SlashCommand(name="edit", argument="[TEXT]", takes="maybe", text="change your last message and send it again"),
    SlashCommand(name="retry", text="regenerate the last answer"),
    SlashCommand(
        name="attach",
        argument="FILE",
        takes="something",
        example="/attach photo.png",
        text="send a file with your next message",
    ),
    SlashCommand(name="model", argument="[NAME]", takes="maybe", text="change the model; without NAME: show it"),
    SlashCommand(name="export", argument="[FILE]", takes="maybe", text="write this session to a Markdown file"),
    SlashCommand(name="help", text="show this help"),
    SlashCommand(name="quit", text="leave (or Ctrl-D)"),
)

_BY_NAME: Mapping[str, SlashCommand] = {command.name: command for command in COMMANDS}
ALIASES: Mapping[str, str] = {"exit": "quit"}

KEYS = """\
Enter sends. Alt+Enter, Ctrl-J, or a \\ at the end of a line and Enter start a new line.
A paste is one message. Tab completes commands, sessions, models and files.
Ctrl-C stops an answer; keys pressed while one is written are dropped.
To send a message that starts with /, type //."""


HELP_COLUMN = max(len(command.usage) for command in COMMANDS) + 2
HELP = "\n".join(f"{command.usage:<{HELP_COLUMN}}{command.text}" for command in COMMANDS)


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A typed line: a message, a command with its argument, or an error."""

    message: str = ""
    command: str = ""
    argument: str = ""
    error: str = ""
    """The error message for an invalid command."""


def parse_line(line: str) -> ParsedLine:
    """Parses a line; a command starts with one slash."""
    line = line.strip()
    if not line.startswith(MARK) or line.startswith(MARK * 2):
        return ParsedLine(message=line.removeprefix(MARK))
    word, *rest = line[1:].split(maxsplit=1) or [""]
    argument = "".join(rest)
    command = _BY_NAME.get(ALIASES.get(word, word))
    if command is None and "\n" in line:
        # A pasted text; no command has several lines.
        return ParsedLine(message=line)
    if command is None:
        return ParsedLine(error=f"unknown command /{word}; /help lists the commands")
    if command.takes == "nothing" and argument:
        return ParsedLine(error=f"/{word} takes no argument")
    if command.takes == "something" and not argument:
        return ParsedLine(error=missing(command.name))
    return ParsedLine(command=command.name, argument=argument)


def missing(name: str) -> str:
    """The error message for a missing or invalid argument."""
    noun = {"N": "a number", "TEXT": "a text", "FILE": "a file", "WORDS": "words"}[_BY_NAME[name].argument.strip("[]")]
    return f"/{name} needs {noun}, as in {_BY_NAME[name].example}"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A completion; it replaces the last `length` characters before the cursor."""

    text: str
    length: int
    note: str = ""


def suggest(line: str, values: Mapping[str, Sequence[tuple[str, str]]]) -> list[Suggestion]:
    """Completions of commands and their arguments. `values` holds pairs of value and note by command; notes match, too."""
    if not line.startswith(MARK) or "\n" in line:
        return []
    word, space, argument = line[1:].partition(" ")
    if not space:
        return [
            Suggestion(f"{MARK}{command.name}{' ' if command.takes != 'nothing' else ''}", len(line), command.text)
            for command in COMMANDS
            if command.name.startswith(word)
        ]
    typed = argument.lower()
    return [
        Suggestion(value, len(argument), note)
        for value, note in values.get(word, ())
        if value.lower().startswith(typed) or (typed and typed in note.lower())
    ]
