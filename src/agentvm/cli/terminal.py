"""Terminal — the input loop of a chat: reads lines, runs commands and waits for answers.

Runs in the main thread, which receives Ctrl-C; the event loop runs in another. Ctrl-C interrupts an answer; a second one stops
waiting for it; at the prompt it clears the line, and leaves if pressed twice. Without a terminal it ends the program and the
answer.
"""

import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, nullcontext
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from anyio.from_thread import BlockingPortal

from agentvm.cli.chat_commands import ChatBackend, ChatCommands, Events, titled
from agentvm.cli.chat_session import ChatSession, first_words, words_of
from agentvm.cli.echo import drop_typed, without_echo
from agentvm.cli.screen import Screen
from agentvm.cli.slash import Suggestion, parse_line, suggest
from agentvm.cli.table import counted
from agentvm.cli.wait_prompt import WaitPrompt, left_open
from agentvm.errors import AgentVMError, InvalidInput, Unauthenticated
from agentvm.model.message import Message, UserMessage

if TYPE_CHECKING:
    from agentvm.cli.line_editor import LineEditor

PROMPT = "> "


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Blocks SIGINT in threads started in the meantime: it must wake this thread, which waits for a key."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Terminal:
    """One chat. `live` is for a terminal; otherwise there is no greeting, and failures set the exit code."""

    def __init__(
        self, portal: BlockingPortal, conversation: ChatSession, screen: Screen, backend: ChatBackend, *, live: bool
    ) -> None:
        self._portal = portal
        self._conversation = conversation
        conversation.answers_held = live
        self._screen = screen
        self._live = live
        self._editor: LineEditor | None = None
        self._commands = ChatCommands(
            portal, conversation, screen, backend, answer=self._stream, ask=self._question if live else None
        )
        self._fetched: set[str] = set()
        self._waits: dict[str, Mapping[str, Any]] = {}
        """Calls of the turn that wait for an answer, by wait."""
        self._answering = False
        self._interrupted = False
        self._completed = True

    def answer(self, message: str) -> int:
        """Sends one message and shows its answer; returns 0 only if the answer is complete."""
        with self._handling_interrupts():
            self._commands.show_warnings()
            self._commands.show_demo_notice()
            try:
                self._send(message)
            except Unauthenticated:
                raise
            except AgentVMError as error:
                self._screen.error(str(error))
        self._screen.notice(f"(session {self._conversation.session.session_id})")
        return self._exit_code()

    def run(self) -> int:
        """Runs until the user leaves or the input ends; returns the exit code."""
        with self._handling_interrupts(), without_echo(sys.stdin) if self._live else nullcontext():
            if self._live:
                self._greet()
            self._commands.show_warnings()
            self._commands.show_demo_notice()
            self._take_up_waits()
            while (line := self._read()) is not None:
                try:
                    if not self._run_line(line):
                        break
                except Unauthenticated:
                    # Permanent: the key was revoked or has expired.
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
        """Shows a notice from the event loop's thread, above the prompt if there is one."""
        if self._editor is None or not self._editor.show_above(lambda: self._screen.notice(text)):
            self._screen.notice(text)

    def _greet(self) -> None:
        from agentvm.cli.line_editor import LineEditor

        self._editor = LineEditor(self._suggest)
        messages = self._portal.call(self._conversation.messages)
        label = self._conversation.session.record.title or first_words(messages)
        if messages:
            self._editor.remember(_questions(messages))
            count = counted(len(messages), "message")
            self._screen.notice(f"Continuing {titled(label)} ({count}; /history shows them, /new starts a new session).")
        else:
            self._screen.notice("New session started.")
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
                self._screen.notice("Press Ctrl-C again or Ctrl-D to leave.")

    def _ask(self, prompt: str, prefilled: str = "") -> str:
        assert self._editor is not None, "only a terminal has an editor"
        drop_typed(sys.stdin)
        return self._editor.ask(prompt, prefilled)

    def _question(self, prompt: str, prefilled: str) -> str | None:
        try:
            return self._ask(prompt, prefilled)
        except (EOFError, KeyboardInterrupt):
            return None

    def _suggest(self, line: str) -> Iterable[Suggestion]:
        """Completions for the typed line. Never waits: missing values are fetched for the next key."""
        for command, fetch in (("resume", self._commands.fetch_sessions), ("model", self._commands.fetch_models)):
            if line.startswith(f"/{command}") and command not in self._fetched:
                self._fetched.add(command)
                self._portal.start_task_soon(fetch)
        return suggest(line, self._commands.completions())

    # --- commands

    def _run_line(self, line: str) -> bool:
        """Runs a command or sends a message; False to leave."""
        parsed = parse_line(line)
        if parsed.error:
            self._screen.error(parsed.error)
        elif parsed.command == "quit":
            return False
        elif parsed.command:
            self._commands.run(parsed.command, parsed.argument)
            if parsed.command == "resume":
                self._take_up_waits()
        elif parsed.message:
            self._send(parsed.message)
        return True

    # --- answering

    def _send(self, text: str) -> None:
        self._stream(lambda: self._conversation.send(text))
        self._answer_waits()

    def _take_up_waits(self) -> None:
        """Asks a person for the calls that waited before the chat was opened: a message would end their turn unseen."""
        if self._live:
            waits = self._portal.call(self._conversation.open_waits)
            self._waits = {str(wait["waitId"]): wait for wait in waits}
            self._answer_waits()

    def _answer_waits(self) -> None:
        """Asks for an answer to each call that waits, while the turn is parked."""
        while self._waits:
            wait_id, wait = next(iter(self._waits.items()))
            answer = WaitPrompt(self._screen.notice, self._question).ask(wait) if self._live else None
            if answer is None:
                for left in self._waits.values():
                    self._screen.notice(left_open(left))
                self._screen.notice("A new message ends the turn.")
                self._waits.clear()
                return
            del self._waits[wait_id]
            try:
                self._stream(partial(self._conversation.answer, wait, **answer))
            except InvalidInput as error:
                # An answer that does not fit changes nothing: it is asked for again.
                self._screen.error(str(error))
                self._waits[wait_id] = wait

    def _stream(self, events: Events) -> None:
        self._interrupted = self._completed = False
        self._answering = True
        answer = self._portal.start_task_soon(self._show_answer, events)
        try:
            answer.result()
        except KeyboardInterrupt:
            answer.cancel()
            self._screen.notice("Stopped waiting; /history shows the answer when it is complete.")
        finally:
            self._answering = False
        if self._interrupted and not self._live:
            raise KeyboardInterrupt

    async def _show_answer(self, events: Events) -> None:
        async with aclosing(events()) as arriving:
            async for event in arriving:
                self._screen.show(event)
                if event.type == "tool_waiting":
                    self._waits[str(event.data["waitId"])] = event.data
                elif event.type == "tool_answered":
                    self._waits.pop(str(event.data.get("waitId")), None)
                elif event.type == "turn_response":
                    self._waits.clear()
                if event.type == "turn_response":
                    self._completed = event.data.get("outcome") == "completed"
                if event.type == "turn_request" and self._interrupted:
                    # Ctrl-C was pressed before the turn started.
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
