"""Line editor — the prompt of a chat in a terminal: multi-line messages, pastes, history and completion.

Imported only by a chat in a terminal, since prompt-toolkit is slow to load. It runs its own event loop in the main thread,
separate from the loop of the connection.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output

from agentvm.cli.slash import MARK, Suggestion

ATTACH = f"{MARK}attach "
MENU_LINES = 6


class ChatCompleter(Completer):
    """Completes commands, their arguments, and file names after `/attach`."""

    def __init__(self, suggest: Callable[[str], Iterable[Suggestion]]) -> None:
        self._suggest = suggest
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        line = document.text_before_cursor
        if line.startswith(ATTACH):
            path = line.removeprefix(ATTACH)
            yield from self._paths.get_completions(Document(path, len(path)), complete_event)
            return
        for suggestion in self._suggest(line):
            yield Completion(suggestion.text, start_position=-suggestion.length, display_meta=suggestion.note)


class LineEditor:
    """Prompts for one message at a time. The history is in memory only."""

    def __init__(
        self, suggest: Callable[[str], Iterable[Suggestion]], *, source: Input | None = None, output: Output | None = None
    ) -> None:
        self._input = source or create_input(sys.stdin)
        self._history = InMemoryHistory()
        self._clears = True
        """If true, Ctrl-C only clears the typed text."""
        output = output or create_output(sys.stdout)
        if isinstance(output, Vt100_Output):
            # On a slow line the reply to a cursor position request would end up in the input.
            output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            multiline=True,
            key_bindings=_bindings(lambda: self._clears and bool(self._session.default_buffer.text)),
            completer=ChatCompleter(suggest),
            # Space for the menu is reserved only for commands.
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith(MARK)),
            reserve_space_for_menu=MENU_LINES,
            history=self._history,
            prompt_continuation=lambda width, number, wrapped: " " * width,
            input=self._input,
            output=output,
        )

    def ask(self, prompt: str, prefilled: str = "") -> str:
        """Reads a message. On an empty line Ctrl-D raises `EOFError`, Ctrl-C `KeyboardInterrupt`; else Ctrl-C clears it.

        A `prefilled` text is not cleared: Ctrl-C raises `KeyboardInterrupt`.
        """
        clear_typeahead(self._input)
        self._clears = not prefilled
        return self._session.prompt(prompt, default=prefilled)

    def remember(self, messages: Sequence[str]) -> None:
        """Adds messages to the history, oldest first."""
        for text in messages:
            self._history.append_string(text)

    def show_above(self, show: Callable[[], None]) -> bool:
        """Calls `show` above the prompt, from any thread; False without an open prompt."""
        app = self._session.app
        loop, context = app.loop, app.context
        if loop is None or context is None or not app.is_running:
            return False
        try:
            loop.call_soon_threadsafe(lambda: run_in_terminal(show), context=context)
        except RuntimeError:
            # The prompt has ended and its loop is closed.
            return False
        return True


def _bindings(clears: Callable[[], bool]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        buffer: Buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("c-c", filter=Condition(clears))
    def _clear(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys
