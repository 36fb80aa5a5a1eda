"""Slash — the commands of a chat: what they are called, what they take, and how a line is read as one. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

MARK = "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slash:
    """One command. `example` is shown when its argument is missing."""

    name: str
    text: str
    argument: str = ""
    takes: Literal["nothing", "something", "maybe"] = "nothing"
    example: str = ""

    @property
    def usage(self) -> str:
        return f"{MARK}{self.name} {self.argument}".rstrip()


COMMANDS: tuple[Slash, ...] = (
    Slash(name="sessions", text="list the sessions of this container"),
    Slash(name="search", argument="WORDS", takes="something", example="/search dragons", text="find sessions by what was said"),
    Slash(
        name="resume",
        argument="N",
        takes="something",
        example="/resume 2; /sessions lists them",
        text="go on in number N of the last list",
    ),
    Slash(name="new", text="start a new session"),
    Slash(name="title", argument="TEXT", takes="something", example="/title Holidays", text="name this session"),
    Slash(name="history", text="show what was said, your messages numbered"),
    Slash(
        name="fork",
        argument="[N]",
        takes="maybe",
        text="go on in a copy of this session, up to the answer to message N",
    ),
    Slash(name="edit", argument="[TEXT]", takes="maybe", text="change your last message and send it again"),
    Slash(name="retry", text="have the last answer made anew"),
    Slash(
        name="attach",
        argument="FILE",
        takes="something",
        example="/attach photo.png",
        text="send a file with your next message",
    ),
    Slash(
        name="model",
        argument="[NAME]",
        takes="maybe",
        text="answer with another model from now on; alone: show it",
    ),
    Slash(
        name="export",
        argument="[FILE]",
        takes="maybe",
        text="write this session to a Markdown file",
    ),
    Slash(name="help", text="show this"),
    Slash(name="quit", text="leave (or Ctrl-D)"),
)

_BY_NAME: Mapping[str, Slash] = {command.name: command for command in COMMANDS}
ALIASES: Mapping[str, str] = {"exit": "quit"}

KEYS = """\
Enter sends. Alt+Enter, Ctrl-J, or a \\ at the end of a line and Enter begin a new line.
A paste is one message. Tab completes commands, sessions, models and files.
Ctrl-C stops an answer; keys pressed while one is written are dropped.
To send a line that begins with /, begin it with //."""


HELP_COLUMN = max(len(command.usage) for command in COMMANDS) + 2
HELP = "\n".join(f"{command.usage:<{HELP_COLUMN}}{command.text}" for command in COMMANDS)


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a line means: a message, or a command with its argument."""

    message: str = ""
    command: str = ""
    argument: str = ""
    wrong: str = ""
    """Why it is neither."""


def read(line: str) -> Spoken:
    """A line as it was typed, which is a command if it begins with one slash."""
    line = line.strip()
    if not line.startswith(MARK) or line.startswith(MARK * 2):
        return Spoken(message=line.removeprefix(MARK))
    word, *rest = line[1:].split(maxsplit=1) or [""]
    argument = "".join(rest)
    command = _BY_NAME.get(ALIASES.get(word, word))
    if command is None and "\n" in line:
        # Pasted: no command has several lines.
        return Spoken(message=line)
    if command is None:
        return Spoken(wrong=f"there is no command /{word}; /help lists them")
    if command.takes == "nothing" and argument:
        return Spoken(wrong=f"/{word} stands alone, without {argument!r}")
    if command.takes == "something" and not argument:
        return Spoken(wrong=missing(command.name))
    return Spoken(command=command.name, argument=argument)


def missing(name: str) -> str:
    """What to say when the argument of a command is not there, or is not one."""
    noun = {"N": "a number", "TEXT": "a text", "FILE": "a file", "WORDS": "words"}[_BY_NAME[name].argument.strip("[]")]
    return f"/{name} needs {noun}, as in {_BY_NAME[name].example}"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One way to go on: it replaces the last `length` characters before the cursor."""

    text: str
    length: int
    note: str = ""


def suggest(line: str, known: Mapping[str, Sequence[tuple[str, str]]]) -> list[Suggestion]:
    """Commands, then their arguments. `known` has the values of each command, each with a note; a note is matched, too."""
    if not line.startswith(MARK) or "\n" in line:
        return []
    word, space, argument = line[1:].partition(" ")
    if not space:
        found = [command for command in COMMANDS if command.name.startswith(word)]
        return [Suggestion(f"{MARK}{one.name}{' ' if one.takes != 'nothing' else ''}", len(line), one.text) for one in found]
    wanted = argument.lower()
    values = [
        (value, note)
        for value, note in known.get(word, ())
        if value.lower().startswith(wanted) or (wanted and wanted in note.lower())
    ]
    return [Suggestion(value, len(argument), note) for value, note in values]
