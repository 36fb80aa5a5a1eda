"""Line editor — the prompt of a chat in a terminal: messages of several lines, pastes as they are, history, completion.

Only a chat in a terminal imports this file: prompt-toolkit takes a while to load. It runs an event loop of its own in the
calling thread, which is the main one, and knows nothing of the loop in which the connection lives.
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
    """Commands and what they take; file names behind `/attach`."""

    def __init__(self, suggest: Callable[[str], Iterable[Suggestion]]) -> None:
        self._suggest = suggest
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        line = document.text_before_cursor
        if line.startswith(ATTACH):
            path = line.removeprefix(ATTACH)
            yield from self._paths.get_completions(Document(path, len(path)), complete_event)
            return
        for one in self._suggest(line):
            yield Completion(one.text, start_position=-one.length, display_meta=one.note)


class LineEditor:
    """Asks for one message at a time. What was said before is in its history, and on no disk."""

    def __init__(
        self,
        suggest: Callable[[str], Iterable[Suggestion]],
        *,
        source: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._input = source or create_input(sys.stdin)
        self._history = InMemoryHistory()
        self._clears = True
        """If true, Ctrl-C only clears the typed text."""
        output = output or create_output(sys.stdout)
        if isinstance(output, Vt100_Output):
            # Asking where the cursor is would be answered into the input, long after the prompt is gone on a slow line.
            output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            multiline=True,
            key_bindings=_bindings(lambda: self._clears and bool(self._session.default_buffer.text)),
            completer=ChatCompleter(suggest),
            # Only then room is kept below the prompt for the list.
            complete_while_typing=Condition(lambda: self._session.default_buffer.text.startswith(MARK)),
            reserve_space_for_menu=MENU_LINES,
            history=self._history,
            prompt_continuation=lambda width, number, wrapped: " " * width,
            input=self._input,
            output=output,
        )

    def ask(self, prompt: str, prefilled: str = "") -> str:
        """The message. `EOFError` for Ctrl-D and `KeyboardInterrupt` for Ctrl-C on an empty one; otherwise Ctrl-C clears it.

        What was `prefilled` is not cleared but given up, with `KeyboardInterrupt`.
        """
        clear_typeahead(self._input)
        self._clears = not prefilled
        return self._session.prompt(prompt, default=prefilled)

    def remember(self, messages: Sequence[str]) -> None:
        """What the up key brings back, the oldest first."""
        for text in messages:
            self._history.append_string(text)

    def show_above(self, show: Callable[[], None]) -> bool:
        """Calls `show`, from any thread, with the prompt out of the way; False when nobody is asked anything."""
        app = self._session.app
        loop, context = app.loop, app.context
        if loop is None or context is None or not app.is_running:
            return False
        try:
            loop.call_soon_threadsafe(lambda: run_in_terminal(show), context=context)
        except RuntimeError:
            # The prompt was answered meanwhile, and its loop is closed.
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
