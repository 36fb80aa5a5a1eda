"""Screen — the output of a chat: answers on stdout, notices and errors on stderr."""

import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from agentvm.cli.chat_session import SearchChoice, SessionChoice, text_of
from agentvm.cli.markdown import Markdown
from agentvm.cli.table import shortened
from agentvm.cli.wrapping import wrap
from agentvm.model.message import AssistantMessage, ErrorMessage, Message, ToolCallMessage, ToolResultMessage, UserMessage
from agentvm.protocol.link import WireEvent

LINE_CHARACTERS_MAX = 160
CITATION_CHARACTERS_MAX = 1_000
"""Longer than any citation: half of one opens nothing."""
LABEL_INDENT_COLUMNS = 24
"""Indentation of the labels in a list of sessions."""

# Control characters of a model must not steer the terminal; new lines and tabs are kept.
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_ERASE_LINE = "\r\x1b[K"


def clean(text: str) -> str:
    return text.translate(_CONTROLS)


def one_line(text: str, width: int = LINE_CHARACTERS_MAX) -> str:
    return shortened(clean(text), width)


def citation_line(cited: Mapping[str, Any]) -> str:
    """Returns the number of a passage in an answer, and its URI for `avm knowledge open`."""
    return one_line(f"[{cited.get('n')}] {cited.get('cite')}", CITATION_CHARACTERS_MAX)


class Screen:
    """Shows one chat. `live` is for a terminal: it also shows transient progress.

    With `markdown` answers are rendered; without, they are written unchanged.
    """

    def __init__(self, *, live: bool, color: bool | None = None, markdown: Markdown | None = None) -> None:
        self._live = live
        self._color = color
        self._markdown = markdown
        self._at_line_start = True
        self._has_progress = False
        self._inputs: dict[str, object] = {}
        self.failed = False
        """Returns whether an error was shown."""

    def show(self, event: WireEvent) -> None:
        """Shows an event of a turn; most have no output."""
        data = event.data
        match event.type:
            case "turn_request" | "message_start" | "conversation_thinking":
                self._progress("thinking…")
            case "conversation_queued":
                self._progress("waiting for the previous message…")
            case "provider_fallback":
                self._progress(one_line(f"{data.get('from')} does not answer; switching to {data.get('to')}…"))
            case "text_delta":
                self._answer(clean(str(data.get("text", ""))))
            case "tool_use_stop":
                self._inputs[str(data.get("toolCallId"))] = data.get("input")
                self._progress(f"{one_line(str(data.get('toolName')))}…")
            case "tool_executing" if data.get("parentId"):
                self._inputs[str(data.get("toolId"))] = data.get("input")
            case "tool_completed":
                self._tool(data, str(data.get("result")))
            case "tool_failed":
                self._tool(data, f"failed: {data.get('error')}")
            case "assistant_message":
                self._cite(data.get("citations"))
            case "error_occurred":
                self.error(str(data.get("message")))
            case "turn_response":
                self._end(data)
            case _:
                pass

    def notice(self, text: str) -> None:
        """Prints a dim line about the chat."""
        self._line(text, dim=True)

    def error(self, text: str) -> None:
        self.failed = True
        self._line(f"Error: {text}", fg="red")

    def sessions(self, choices: Sequence[SessionChoice]) -> None:
        self._fresh_line()
        for number, item in enumerate(choices, 1):
            at = _moment(item.session.updated_at)
            mark = "*" if item.current else " "
            line = f"{mark}{number:>3}  {at}  {one_line(item.label) or '(empty)'}"
            self._out(f"{self._wrapped(line, LABEL_INDENT_COLUMNS)}\n", bold=item.current)

    def hits(self, hits: Sequence[SearchChoice]) -> None:
        self._fresh_line()
        for number, hit in enumerate(hits, 1):
            line = f" {number:>3}  {_moment(hit.at)}  {one_line(hit.label) or '(no title)'}"
            self._out(f"{self._wrapped(line, LABEL_INDENT_COLUMNS)}\n", bold=True)
            if hit.snippet:
                self._out(f"{self._wrapped(f'      {one_line(hit.snippet)}')}\n")
        if not hits:
            self.notice("No matches.")

    def text(self, text: str, hanging: int = 0) -> None:
        """Prints a text; long lines are wrapped with that indentation."""
        self._fresh_line()
        self._out(f"{self._wrapped(clean(text), hanging)}\n")

    def history(self, messages: Sequence[Message]) -> None:
        self._fresh_line()
        number = 0
        for message in messages:
            match message:
                case UserMessage(content=content):
                    number += 1
                    self._out(f"{self._wrapped(f'{number}> {clean(text_of(content))}')}\n", bold=True)
                case AssistantMessage(text=text, citations=citations):
                    self._answer(clean(text))
                    self._fresh_line()
                    self._cite(msgspec.to_builtins(citations))
                case ToolCallMessage(tool_call=call):
                    self._inputs[call.id] = call.input
                case ToolResultMessage(tool_result=result):
                    self._tool({"toolId": result.id, "toolName": result.name}, result.output.text)
                case ErrorMessage(content=text):
                    self._line(f"Error: {text}", fg="red")
        if not messages:
            self.notice("The session has no messages.")

    # --- lines and transient progress

    def _answer(self, text: str) -> None:
        self._clear()
        if text and self._markdown is not None:
            self._write(self._markdown.feed(text))
            self._at_line_start = self._markdown.at_line_start
        elif text:
            self._out(text)
            self._at_line_start = text.endswith("\n")

    def _tool(self, data: dict[str, object], result: str) -> None:
        tool_input = self._inputs.pop(str(data.get("toolId")), None)
        arguments = msgspec.json.encode(tool_input).decode() if tool_input else ""
        self.notice(one_line(f"[{data.get('toolName')}] {arguments} → {result}"))

    def _cite(self, citations: object) -> None:
        for cited in citations if isinstance(citations, list | tuple) else ():
            self.notice(citation_line(cited))

    def _end(self, data: dict[str, object]) -> None:
        self._inputs.clear()
        usage = data.get("usage")
        tokens = usage if isinstance(usage, dict) else {}
        duration = data.get("duration")
        seconds = duration / 1000 if isinstance(duration, int) else 0
        parts = ["interrupted"] if data.get("outcome") == "interrupted" else []
        if tokens.get("inputTokens") or tokens.get("outputTokens"):
            about = "about " if tokens.get("estimated") else ""
            parts.append(f"{about}{tokens.get('inputTokens')} tokens in, {tokens.get('outputTokens')} out")
        parts.append(f"{seconds:.1f} s")
        if model := data.get("model"):
            parts.append(str(model))
        self.notice(one_line(f"({' · '.join(parts)})"))

    def _line(self, text: str, *, dim: bool = False, fg: str | None = None) -> None:
        self._fresh_line()
        # `dim=False` would make click write a reset code.
        click.secho(self._wrapped(clean(text)), err=True, color=self._color, dim=dim or None, fg=fg)

    def _wrapped(self, text: str, hanging: int = 0) -> str:
        """The text wrapped for a terminal; unchanged for a pipe."""
        if self._markdown is None:
            return text
        return wrap(text, shutil.get_terminal_size().columns, hanging=" " * hanging)

    def _fresh_line(self) -> None:
        self._clear()
        if self._markdown is not None:
            self._write(self._markdown.finish())
        if not self._at_line_start:
            self._out("\n")
            self._at_line_start = True

    def _progress(self, text: str) -> None:
        """Shows transient progress until the next output."""
        if self._live and self._at_line_start:
            self._clear()
            self._out(text[: shutil.get_terminal_size().columns - 1], dim=True)
            self._has_progress = True

    def _clear(self) -> None:
        if self._has_progress:
            self._out(_ERASE_LINE)
            self._has_progress = False

    def _out(self, text: str, *, dim: bool = False, bold: bool = False) -> None:
        styled = click.style(text, dim=dim or None, bold=bold or None) if dim or bold else text
        if text is _ERASE_LINE:
            self._write(text)
        else:
            click.echo(styled, nl=False, color=self._color)
            sys.stdout.flush()

    def _write(self, text: str) -> None:
        """Writes escape codes to a terminal regardless of NO_COLOR: erasing is not a colour."""
        sys.stdout.write(text)
        sys.stdout.flush()


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).strftime("%Y-%m-%d %H:%M")
