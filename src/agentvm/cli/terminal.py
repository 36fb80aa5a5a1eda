"""Terminal — the person's side of a chat: lines are read, commands obeyed, answers awaited.

Runs in the main thread, which is where Ctrl-C arrives, and asks the event loop's thread to do everything else. What
Ctrl-C means depends on where it falls: it stops an answer; once more, it stops waiting for that answer; at the prompt
it clears the line; at the prompt twice, it leaves. Without a terminal it ends the program, and the answer too.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from types import FrameType

import click
from anyio.from_thread import BlockingPortal

from agentvm.cli.conversation import Conversation, Listed, first_words
from agentvm.cli.screen import Screen
from agentvm.errors import AgentVMError, Unauthenticated

with suppress(ImportError):
    # Only by being imported it gives `input` line editing and a history.
    import readline

PROMPT = "> "

HELP = """\
/sessions      list the sessions of this container
/resume N      go on in number N of that list
/new           start a new session
/title TEXT    name this session
/history       show what was said
/quit          leave (or Ctrl-D)
Ctrl-C stops an answer. To send a line that begins with /, begin it with //."""


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

    def __init__(self, portal: BlockingPortal, conversation: Conversation, screen: Screen, *, live: bool) -> None:
        self._portal = portal
        self._conversation = conversation
        self._screen = screen
        self._live = live
        self._listed: tuple[Listed, ...] = ()
        self._asking = False
        self._answering = False
        self._interrupted = False
        self._completed = True

    def answer(self, message: str) -> int:
        """One message and its answer; the exit code, which is 0 only if the answer is complete."""
        with self._handling_interrupts():
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
        with self._handling_interrupts():
            if self._live:
                self._greet()
            while (line := self._read()) is not None:
                try:
                    if not self._obey(line.strip()):
                        break
                except Unauthenticated:
                    # It stays so: the key was revoked, or has expired.
                    raise
                except AgentVMError as error:
                    self._screen.error(str(error))
                except KeyboardInterrupt:
                    if not self._live:
                        raise
        return 0 if self._live else self._exit_code()

    def announce(self, text: str) -> None:
        """Says something from the event loop's thread, also in the middle of the prompt."""
        if not self._asking:
            self._screen.notice(text)
            return
        click.echo("\r\x1b[K", nl=False, color=True)
        self._screen.notice(text)
        typed = readline.get_line_buffer() if "readline" in globals() else ""
        click.echo(f"{PROMPT}{typed}", nl=False)
        sys.stdout.flush()

    def _greet(self) -> None:
        said = self._portal.call(self._conversation.messages)
        label = self._conversation.session.record.title or first_words(said)
        if said:
            self._screen.notice(
                f"Going on with {_named(label)} ({len(said)} messages; /history shows them, /new starts afresh)."
            )
        else:
            self._screen.notice("A new session.")
        self._screen.notice("/help lists the commands; Ctrl-D leaves.")

    # --- reading

    def _read(self) -> str | None:
        if not self._live:
            return sys.stdin.readline() or None
        self._asking = True
        try:
            return self._ask()
        finally:
            self._asking = False

    def _ask(self) -> str | None:
        warned = False
        while True:
            try:
                return input(PROMPT)
            except EOFError:
                click.echo()
                return None
            except KeyboardInterrupt:
                click.echo()
                if warned:
                    return None
                warned = True
                self._screen.notice("Ctrl-C once more, or Ctrl-D, leaves.")

    # --- obeying

    def _obey(self, line: str) -> bool:
        """False to leave."""
        if line.startswith("/") and not line.startswith("//"):
            return self._command(*line[1:].partition(" ")[::2])
        if line:
            self._say(line.removeprefix("/"))
        return True

    def _command(self, name: str, argument: str) -> bool:
        chat, call = self._conversation, self._portal.call
        match name, argument.strip():
            case (("quit" | "exit"), ""):
                return False
            case "help", "":
                click.echo(HELP)
            case "sessions", "":
                self._listed = call(chat.list)
                self._screen.sessions(self._listed)
            case "resume", number if number.isdecimal():
                self._resume(int(number))
            case "new", "":
                call(chat.start)
                self._screen.notice("A new session.")
            case "title", title if title:
                call(chat.set_title, title)
                self._screen.notice(f"This session is now “{title}”.")
            case "history", "":
                self._screen.history(call(chat.messages))
            case "resume", _:
                self._screen.error("/resume needs a number, as in /resume 2; /sessions lists them")
            case "title", _:
                self._screen.error("/title needs a text, as in /title Holidays")
            case (("quit" | "exit" | "help" | "sessions" | "new" | "history"), _):
                self._screen.error(f"/{name} stands alone, without {argument.strip()!r}")
            case _:
                self._screen.error(f"there is no command /{name}; /help lists them")
        return True

    def _resume(self, number: int) -> None:
        listed = self._listed or self._portal.call(self._conversation.list)
        if not 1 <= number <= len(listed):
            self._screen.error(f"there is no session number {number}; /sessions lists them")
            return
        chosen = listed[number - 1]
        self._portal.call(self._conversation.resume, chosen.session.session_id)
        self._screen.notice(f"Going on with {_named(chosen.label)}; /history shows it.")

    # --- answering

    def _say(self, text: str) -> None:
        self._interrupted = self._completed = False
        self._answering = True
        answer = self._portal.start_task_soon(self._show_answer, text)
        try:
            answer.result()
        except KeyboardInterrupt:
            answer.cancel()
            self._screen.notice("No longer waiting for this answer; /history shows it once it is there.")
        finally:
            self._answering = False
        if self._interrupted and not self._live:
            raise KeyboardInterrupt

    async def _show_answer(self, text: str) -> None:
        async with aclosing(self._conversation.say(text)) as events:
            async for event in events:
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


def _named(label: str) -> str:
    return f"“{label}”" if label else "a session in which nothing was said yet"
