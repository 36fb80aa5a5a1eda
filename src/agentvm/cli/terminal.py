"""Terminal — the person's side of a chat: lines are read, commands obeyed, answers awaited.

Runs in the main thread, which is where Ctrl-C arrives, and asks the event loop's thread to do everything else. What
Ctrl-C means depends on where it falls: it stops an answer; once more, it stops waiting for that answer; at the prompt
it clears the line; at the prompt twice, it leaves. Without a terminal it ends the program, and the answer too.
"""

import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from types import FrameType
from typing import TYPE_CHECKING

import click
from anyio.from_thread import BlockingPortal

from agentvm.cli.chat_commands import ChatCommands, Events, Surroundings, named
from agentvm.cli.conversation import Conversation, first_words, words_of
from agentvm.cli.echo import drop_typed, without_echo
from agentvm.cli.screen import Screen
from agentvm.cli.slash import Suggestion, read, suggest
from agentvm.errors import AgentVMError, Unauthenticated
from agentvm.model.message import Message, UserMessage

if TYPE_CHECKING:
    from agentvm.cli.line_editor import LineEditor

PROMPT = "> "


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Threads that are started meanwhile never get a Ctrl-C: it must wake the one that waits for a key, which is this one."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Terminal:
    """One chat. `live` is with a person who watches; otherwise nobody is greeted, and what went wrong is the exit code."""

    def __init__(
        self, portal: BlockingPortal, conversation: Conversation, screen: Screen, surroundings: Surroundings, *, live: bool
    ) -> None:
        self._portal = portal
        self._conversation = conversation
        self._screen = screen
        self._live = live
        self._editor: LineEditor | None = None
        self._commands = ChatCommands(
            portal, conversation, screen, surroundings, answer=self._stream, ask=self._question if live else None
        )
        self._learned: set[str] = set()
        self._answering = False
        self._interrupted = False
        self._completed = True

    def answer(self, message: str) -> int:
        """One message and its answer; the exit code, which is 0 only if the answer is complete."""
        with self._handling_interrupts():
            self._commands.tell_warnings()
            self._commands.tell_of_demo()
            try:
                self._say(message)
            except Unauthenticated:
                raise
            except AgentVMError as error:
                self._screen.error(str(error))
        self._screen.notice(f"(session {self._conversation.session.session_id})")
        return self._exit_code()

    def run(self) -> int:
        """Until the person leaves or the input ends; the exit code."""
        with self._handling_interrupts(), without_echo(sys.stdin) if self._live else nullcontext():
            if self._live:
                self._greet()
            self._commands.tell_warnings()
            self._commands.tell_of_demo()
            while (line := self._read()) is not None:
                try:
                    if not self._obey(line):
                        break
                except Unauthenticated:
                    # It stays so: the key was revoked, or has expired.
                    raise
                except AgentVMError as error:
                    self._screen.error(str(error))
                except click.ClickException as error:
                    self._screen.error(error.format_message())
                except KeyboardInterrupt:
                    if not self._live:
                        raise
        return 0 if self._live else self._exit_code()

    def announce(self, text: str) -> None:
        """Says something from the event loop's thread, also in the middle of the prompt."""
        if self._editor is None or not self._editor.show_above(lambda: self._screen.notice(text)):
            self._screen.notice(text)

    def _greet(self) -> None:
        from agentvm.cli.line_editor import LineEditor

        self._editor = LineEditor(self._suggest)
        said = self._portal.call(self._conversation.messages)
        label = self._conversation.session.record.title or first_words(said)
        if said:
            self._editor.remember(_questions(said))
            self._screen.notice(
                f"Going on with {named(label)} ({len(said)} messages; /history shows them, /new starts afresh)."
            )
        else:
            self._screen.notice("A new session.")
        self._screen.notice("/help lists the commands; Ctrl-D leaves.")

    # --- reading

    def _read(self) -> str | None:
        if self._editor is None:
            return sys.stdin.readline() or None
        warned = False
        while True:
            try:
                return self._ask(PROMPT)
            except EOFError:
                return None
            except KeyboardInterrupt:
                if warned:
                    return None
                warned = True
                self._screen.notice("Ctrl-C once more, or Ctrl-D, leaves.")

    def _ask(self, prompt: str, prefilled: str = "") -> str:
        assert self._editor is not None, "only a person in a terminal is asked"
        drop_typed(sys.stdin)
        return self._editor.ask(prompt, prefilled)

    def _question(self, prompt: str, prefilled: str) -> str | None:
        try:
            return self._ask(prompt, prefilled)
        except (EOFError, KeyboardInterrupt):
            return None

    def _suggest(self, line: str) -> Iterable[Suggestion]:
        """Runs while the person types, so that it never waits: what is not known yet is fetched for the next key."""
        for command, fetch in (("resume", self._commands.learn_sessions), ("model", self._commands.learn_models)):
            if line.startswith(f"/{command}") and command not in self._learned:
                self._learned.add(command)
                self._portal.start_task_soon(fetch)
        return suggest(line, self._commands.known())

    # --- obeying

    def _obey(self, line: str) -> bool:
        """False to leave."""
        spoken = read(line)
        if spoken.wrong:
            self._screen.error(spoken.wrong)
        elif spoken.command == "quit":
            return False
        elif spoken.command:
            self._commands.obey(spoken.command, spoken.argument)
        elif spoken.message:
            self._say(spoken.message)
        return True

    # --- answering

    def _say(self, text: str) -> None:
        self._stream(lambda: self._conversation.say(text))

    def _stream(self, events: Events) -> None:
        self._interrupted = self._completed = False
        self._answering = True
        answer = self._portal.start_task_soon(self._show_answer, events)
        try:
            answer.result()
        except KeyboardInterrupt:
            answer.cancel()
            self._screen.notice("No longer waiting for this answer; /history shows it once it is there.")
        finally:
            self._answering = False
        if self._interrupted and not self._live:
            raise KeyboardInterrupt

    async def _show_answer(self, events: Events) -> None:
        async with aclosing(events()) as arriving:
            async for event in arriving:
                self._screen.show(event)
                if event.type == "turn_response":
                    self._completed = event.data.get("outcome") == "completed"
                if event.type == "turn_request" and self._interrupted:
                    # Ctrl-C came before there was anything to stop.
                    await self._conversation.interrupt()

    def _exit_code(self) -> int:
        return 1 if self._screen.failed or not self._completed else 0

    @contextmanager
    def _handling_interrupts(self) -> Iterator[None]:
        before = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if not self._answering or self._interrupted:
            raise KeyboardInterrupt
        self._interrupted = True
        self._portal.start_task_soon(self._conversation.interrupt)


def _questions(messages: Sequence[Message]) -> list[str]:
    return [words_of(message.content) for message in messages if isinstance(message, UserMessage)]
