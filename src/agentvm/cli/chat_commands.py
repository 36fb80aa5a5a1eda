"""Chat commands — what `/fork`, `/model` and the others do, each in one method."""

import re
import shlex
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
from anyio import to_thread
from anyio.from_thread import BlockingPortal

from agentvm.cli.conversation import Conversation, Listed, first_words, search, words_of
from agentvm.cli.screen import Screen
from agentvm.cli.slash import HELP, HELP_COLUMN, KEYS, missing
from agentvm.drivers import demo
from agentvm.errors import AgentVMError
from agentvm.model.message import UserPart
from agentvm.protocol.link import WireEvent

FILE_NAME_CHARS_MAX = 60

Events = Callable[[], AsyncGenerator[WireEvent, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where a chat takes place, as far as the protocol does not tell."""

    part_of: Callable[[Path, str], UserPart]
    """A file as a part of a message, for a container."""
    models: Callable[[], Sequence[str]] = tuple
    """Models that may be asked, as far as known; raises a `click.ClickException` if nobody says."""


class ChatCommands:
    """The commands of one chat. `answer` shows the events of a turn; `ask` asks the person, and is None if nobody can be."""

    def __init__(
        self,
        portal: BlockingPortal,
        conversation: Conversation,
        screen: Screen,
        surroundings: Surroundings,
        *,
        answer: Callable[[Events], None],
        ask: Callable[[str, str], str | None] | None,
    ) -> None:
        self._call = portal.call
        self._chat = conversation
        self._screen = screen
        self._surroundings = surroundings
        self._answer = answer
        self._ask = ask
        self._choices: list[tuple[str, str]] = []
        self._model: str | None = None
        self._models: Sequence[str] = ()
        self._deeds: dict[str, Callable[[str], None]] = {
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

    def known(self) -> dict[str, Sequence[tuple[str, str]]]:
        """Possible arguments of commands, each with a note: the sessions that were listed last, the models."""
        sessions = [(str(number), label) for number, (_, label) in enumerate(self._choices, 1)]
        return {"resume": sessions, "model": [(model, "") for model in self._models]}

    async def learn_sessions(self) -> None:
        """For `known`, from the event loop's thread."""
        with suppress(AgentVMError):
            self._choices = self._choices or _choices(await self._chat.list())

    async def learn_models(self) -> None:
        """For `known`, from the event loop's thread."""
        self._models = await to_thread.run_sync(self._known_models)

    def obey(self, command: str, argument: str) -> None:
        self._deeds[command](argument)
        self.tell_warnings()

    def tell_warnings(self) -> None:
        """Warnings of the server about images it built."""
        for warning in self._chat.take_warnings():
            self._screen.notice(f"Note: {warning}")

    def tell_of_demo(self) -> None:
        """Says so if the model that answers is the built-in one, and was another before."""
        try:
            model = self._call(self._chat.model)
        except AgentVMError:
            # The notice is not worth an error; whatever is wrong will be told with the first message.
            return
        if model is not None and model != self._model and demo.is_demo(model.partition("/")[2]):
            self._screen.notice(f"{demo.NOTICE} {demo.REMEDY}")
        self._model = model

    def _help(self, _: str) -> None:
        self._screen.text(HELP, HELP_COLUMN)
        self._screen.text(f"\n{KEYS}")

    # --- sessions

    def _sessions(self, _: str) -> None:
        listed = self._call(self._chat.list)
        self._choices = _choices(listed)
        self._screen.sessions(listed)

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
            self._screen.error(f"there is no session number {number}; /sessions lists them")
            return
        session_id, label = self._choices[int(number) - 1]
        self._call(self._chat.resume, session_id)
        self._screen.notice(f"Going on with {named(label)}; /history shows it.")
        self.tell_of_demo()

    def _new(self, _: str) -> None:
        self._call(self._chat.start)
        self._screen.notice("A new session.")

    def _title(self, title: str) -> None:
        self._call(self._chat.session.set_title, title)
        self._screen.notice(f"This session is now “{title}”.")

    # --- what was said, said otherwise

    def _fork(self, number: str) -> None:
        if number and not number.isdecimal():
            self._screen.error("/fork takes the number of a message, as in /fork 2; /history shows them")
            return
        count = self._call(self._chat.fork, int(number) if number else None)
        self._screen.notice(f"A copy of the session, with its first {count} messages. The other one stays as it is.")

    def _edit(self, text: str) -> None:
        if not text:
            said = words_of(self._call(self._chat.last_question).content)
            if self._ask is None:
                self._screen.error("/edit needs a text where nobody can be asked, as in /edit In metres, please")
                return
            text = (self._ask("edit> ", said) or "").strip()
            if not text:
                self._screen.notice("Nothing was changed.")
                return
        self._answer(lambda: self._chat.edit(text))

    def _attach(self, argument: str) -> None:
        path = file_named(argument)
        if not path.is_file():
            self._screen.error(f"there is no file {path}")
            return
        try:
            self._chat.attach(self._surroundings.part_of(path, self._chat.container_id))
        except OSError as error:
            self._screen.error(f"{path} cannot be read: {error.strerror}")
            return
        self._screen.notice(f"{path.name} goes with your next message.")

    # --- the rest

    def _change_model(self, name: str) -> None:
        if name:
            sessions = self._call(self._chat.set_model, name)
            shared = f" That counts for all {sessions} sessions of this agent." if sessions > 1 else ""
            self._screen.notice(f"From now on {self._call(self._chat.model) or name} answers.{shared}")
            self.tell_of_demo()
            return
        current = self._call(self._chat.model)
        self._screen.text(f"{current or 'The server does not say which model answers.'}")
        others = [model for model in self._known_models() if model != current]
        self._screen.notice(f"Others: {', '.join(others)}. To change: /model NAME" if others else "To change: /model NAME")

    def _known_models(self) -> Sequence[str]:
        try:
            return self._surroundings.models()
        except click.ClickException:
            # A key that may not see the providers can still name one.
            return ()

    def _export(self, argument: str) -> None:
        from agentvm.cli.carrying import to_file
        from agentvm.sessions.people import markdown_page

        messages = self._call(self._chat.messages)
        session = self._chat.session.record
        name = session.title or first_words(messages)
        path = file_named(argument) if argument else Path(file_name(name))
        if path.is_dir():
            path = path / file_name(name)
        if path.exists() and not self._may_replace(path):
            return
        page = markdown_page(session, name, messages).encode("utf-8", "replace")
        to_file(path, lambda file: file.write(page))
        self._screen.notice(f"Wrote {path}: {len(messages)} messages.")

    def _may_replace(self, path: Path) -> bool:
        if self._ask is None:
            self._screen.error(f"{path} is there already; choose another name")
            return False
        answer = self._ask(f"{path} is there already. Replace it? [y/N] ", "")
        if (answer or "").strip().lower() in ("y", "yes"):
            return True
        self._screen.notice("Nothing was written.")
        return False


def _choices(listed: Sequence[Listed]) -> list[tuple[str, str]]:
    return [(item.session.session_id, item.label) for item in listed]


def named(label: str) -> str:
    return f"“{label}”" if label else "a session in which nothing was said yet"


def file_named(text: str) -> Path:
    """The file that somebody means: as it is, or quoted or escaped as terminals write a file that is dropped into them."""
    plain = Path(text).expanduser()
    if plain.exists():
        return plain
    try:
        words = shlex.split(text)
    except ValueError:
        return plain
    return Path(words[0]).expanduser() if len(words) == 1 else plain


def file_name(title: str) -> str:
    """A name for the file of a session: letters and digits of any script, and hyphens."""
    words = re.sub(r"\W+", "-", title)[:FILE_NAME_CHARS_MAX].strip("-_")
    return f"{words or 'session'}.md"
