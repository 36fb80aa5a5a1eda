"""Chat commands — implementations of `/fork`, `/model` and the other slash commands."""

import re
import shlex
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
from anyio import to_thread
from anyio.from_thread import BlockingPortal

from agentvm.cli.chat_session import ChatSession, SessionChoice, first_words, search, words_of
from agentvm.cli.screen import Screen
from agentvm.cli.slash import HELP, HELP_COLUMN, KEYS, missing
from agentvm.cli.table import counted
from agentvm.drivers import demo
from agentvm.errors import AgentVMError
from agentvm.model.message import UserPart
from agentvm.protocol.link import WireEvent

FILE_NAME_CHARACTERS_MAX = 60

Events = Callable[[], AsyncGenerator[WireEvent, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatBackend:
    """Functions of the server that the chat protocol does not cover."""

    part_of: Callable[[Path, str], UserPart]
    """Converts a file to a message part for a container."""
    models: Callable[[], Sequence[str]] = tuple
    """Names of available models; raises a `click.ClickException` if they cannot be listed."""


class ChatCommands:
    """The commands of one chat. `answer` shows the events of a turn; `ask` prompts the user, and is None without a terminal."""

    def __init__(
        self,
        portal: BlockingPortal,
        conversation: ChatSession,
        screen: Screen,
        backend: ChatBackend,
        *,
        answer: Callable[[Events], None],
        ask: Callable[[str, str], str | None] | None,
    ) -> None:
        self._call = portal.call
        self._chat = conversation
        self._screen = screen
        self._backend = backend
        self._answer = answer
        self._ask = ask
        self._choices: list[tuple[str, str]] = []
        self._model: str | None = None
        self._models: Sequence[str] = ()
        self._handlers: dict[str, Callable[[str], None]] = {
            "help": self._help,
            "sessions": self._sessions,
            "search": self._search,
            "resume": self._resume,
            "new": self._new,
            "title": self._title,
            "history": lambda _: screen.history(self._call(conversation.messages)),
            "fork": self._fork,
            "edit": self._edit,
            "retry": lambda _: answer(conversation.retry),
            "attach": self._attach,
            "model": self._change_model,
            "export": self._export,
        }

    def completions(self) -> dict[str, Sequence[tuple[str, str]]]:
        """Arguments for completion, each with a note: the sessions listed last, and models."""
        sessions = [(str(number), label) for number, (_, label) in enumerate(self._choices, 1)]
        return {"resume": sessions, "model": [(model, "") for model in self._models]}

    async def fetch_sessions(self) -> None:
        """Fetches values for `completions`; runs in the event loop's thread."""
        with suppress(AgentVMError):
            self._choices = self._choices or _choices(await self._chat.list())

    async def fetch_models(self) -> None:
        """Fetches values for `completions`; runs in the event loop's thread."""
        self._models = await to_thread.run_sync(self._list_models)

    def run(self, command: str, argument: str) -> None:
        self._handlers[command](argument)
        self.show_warnings()

    def show_warnings(self) -> None:
        """Shows the build warnings of the server."""
        for warning in self._chat.take_warnings():
            self._screen.notice(f"Note: {warning}")

    def show_demo_notice(self) -> None:
        """Shows a notice when the session has switched to the demo model."""
        try:
            model = self._call(self._chat.model)
        except AgentVMError:
            # The first message will report the error.
            return
        if model is not None and model != self._model and demo.is_demo(model.partition("/")[2]):
            self._screen.notice(f"{demo.NOTICE} {demo.REMEDY}")
        self._model = model

    def _help(self, _: str) -> None:
        self._screen.text(HELP, HELP_COLUMN)
        self._screen.text(f"\n{KEYS}")

    # --- sessions

    def _sessions(self, _: str) -> None:
        sessions = self._call(self._chat.list)
        self._choices = _choices(sessions)
        self._screen.sessions(sessions)

    def _search(self, words: str) -> None:
        hits = self._call(search, self._chat.agentx, words)
        if hits:
            self._choices = [(hit.session_id, hit.label or hit.snippet) for hit in hits]
        self._screen.hits(hits)
        if hits:
            self._screen.notice("/resume N opens one.")

    def _resume(self, number: str) -> None:
        if not number.isdecimal():
            self._screen.error(missing("resume"))
            return
        if not self._choices:
            self._choices = _choices(self._call(self._chat.list))
        if not 1 <= int(number) <= len(self._choices):
            self._screen.error(f"session {number} does not exist; /sessions lists them")
            return
        session_id, label = self._choices[int(number) - 1]
        self._call(self._chat.resume, session_id)
        self._screen.notice(f"Continuing {titled(label)}; /history shows it.")
        self.show_demo_notice()

    def _new(self, _: str) -> None:
        self._call(self._chat.start)
        self._screen.notice("New session started.")

    def _title(self, title: str) -> None:
        self._call(self._chat.session.set_title, title)
        self._screen.notice(f"Session renamed to “{title}”.")

    # --- branches

    def _fork(self, number: str) -> None:
        if number and not number.isdecimal():
            self._screen.error("/fork takes a message number, as in /fork 2; /history lists them")
            return
        count = self._call(self._chat.fork, int(number) if number else None)
        self._screen.notice(f"Copied the session with {counted(count, 'message')}. The original is unchanged.")

    def _edit(self, text: str) -> None:
        if not text:
            previous = words_of(self._call(self._chat.last_question).content)
            if self._ask is None:
                self._screen.error("/edit needs a text without a terminal, as in /edit In metres, please")
                return
            text = (self._ask("edit> ", previous) or "").strip()
            if not text:
                self._screen.notice("Nothing was changed.")
                return
        self._answer(lambda: self._chat.edit(text))

    def _attach(self, argument: str) -> None:
        path = path_of(argument)
        if not path.is_file():
            self._screen.error(f"file not found: {path}")
            return
        try:
            self._chat.attach(self._backend.part_of(path, self._chat.container_id))
        except OSError as error:
            self._screen.error(f"cannot read {path}: {error.strerror}")
            return
        self._screen.notice(f"{path.name} is attached to your next message.")

    # --- the rest

    def _change_model(self, name: str) -> None:
        if name:
            sessions = self._call(self._chat.set_model, name)
            shared = f" This applies to all {sessions} sessions of this agent." if sessions > 1 else ""
            self._screen.notice(f"Model changed to {self._call(self._chat.model) or name}.{shared}")
            self.show_demo_notice()
            return
        current = self._call(self._chat.model)
        self._screen.text(f"{current or 'The server does not report the model.'}")
        others = [model for model in self._list_models() if model != current]
        self._screen.notice(f"Available: {', '.join(others)}. To change: /model NAME" if others else "To change: /model NAME")

    def _list_models(self) -> Sequence[str]:
        try:
            return self._backend.models()
        except click.ClickException:
            # A key without the permission to list providers can still select one.
            return ()

    def _export(self, argument: str) -> None:
        from agentvm.cli.transfer import write_atomically
        from agentvm.sessions.people import markdown_page

        messages = self._call(self._chat.messages)
        session = self._chat.session.record
        name = session.title or first_words(messages)
        path = path_of(argument) if argument else Path(file_name(name))
        if path.is_dir():
            path = path / file_name(name)
        if path.exists() and not self._may_replace(path):
            return
        page = markdown_page(session, name, messages).encode("utf-8", "replace")
        write_atomically(path, lambda file: file.write(page))
        self._screen.notice(f"Wrote {path}: {counted(len(messages), 'message')}.")

    def _may_replace(self, path: Path) -> bool:
        if self._ask is None:
            self._screen.error(f"{path} already exists; choose another name")
            return False
        answer = self._ask(f"{path} already exists. Overwrite it? [y/N] ", "")
        if (answer or "").strip().lower() in ("y", "yes"):
            return True
        self._screen.notice("Nothing was written.")
        return False


def _choices(sessions: Sequence[SessionChoice]) -> list[tuple[str, str]]:
    return [(item.session.session_id, item.label) for item in sessions]


def titled(label: str) -> str:
    return f"“{label}”" if label else "an empty session"


def path_of(text: str) -> Path:
    """A path as typed, or quoted or escaped as terminals write a dropped file."""
    plain = Path(text).expanduser()
    if plain.exists():
        return plain
    try:
        words = shlex.split(text)
    except ValueError:
        return plain
    return Path(words[0]).expanduser() if len(words) == 1 else plain


def file_name(title: str) -> str:
    """A file name for a session: letters and digits of any script, and hyphens."""
    words = re.sub(r"\W+", "-", title)[:FILE_NAME_CHARACTERS_MAX].strip("-_")
    return f"{words or 'session'}.md"
