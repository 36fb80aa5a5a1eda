"""Screen — how a chat looks: answers on stdout, everything about them on stderr, so that a pipe gets the answers only."""

import shutil
import sys
from collections.abc import Sequence
from datetime import datetime

import click
import msgspec

from agentvm.cli.conversation import Hit, Listed, text_of
from agentvm.cli.markdown import Markdown
from agentvm.cli.wrapping import wrap
from agentvm.model.message import AssistantMessage, ErrorMessage, Message, ToolCallMessage, ToolResultMessage, UserMessage
from agentvm.protocol.link import WireEvent

MAX_LINE = 160
LABEL_COLUMN = 24
"""Where the labels in a list of sessions begin."""

# A model must not steer the terminal: no control characters but new lines and tabs, neither C0 nor C1.
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_ERASE_LINE = "\r\x1b[K"


def clean(text: str) -> str:
    return text.translate(_CONTROLS)


def one_line(text: str, width: int = MAX_LINE) -> str:
    line = " ".join(clean(text).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"


class Screen:
    """Shows one chat. `live` is for a person who watches: it also says what is going on meanwhile.

    With `markdown` answers are rendered; without, they are written as they are.
    """

    def __init__(self, *, live: bool, color: bool | None = None, markdown: Markdown | None = None) -> None:
        self._live = live
        self._color = color
        self._markdown = markdown
        self._at_line_start = True
        self._passing = False
        self._inputs: dict[str, object] = {}
        self.failed = False
        """Whether anything went wrong so far."""

    def show(self, event: WireEvent) -> None:
        """Shows an event of a turn; most need nothing."""
        data = event.data
        match event.type:
            case "turn_request" | "message_start" | "conversation_thinking":
                self._pass("thinking…")
            case "conversation_queued":
                self._pass("waiting for the message before…")
            case "provider_fallback":
                self._pass(one_line(f"{data.get('from')} does not answer; asking {data.get('to')}…"))
            case "text_delta":
                self._answer(clean(str(data.get("text", ""))))
            case "tool_use_stop":
                self._inputs[str(data.get("toolCallId"))] = data.get("input")
                self._pass(f"{one_line(str(data.get('toolName')))}…")
            case "tool_completed":
                self._tool(data, str(data.get("result")))
            case "tool_failed":
                self._tool(data, f"failed: {data.get('error')}")
            case "error_occurred":
                self.error(str(data.get("message")))
            case "turn_response":
                self._end(data)
            case _:
                pass

    def notice(self, text: str) -> None:
        """A dim line about the chat."""
        self._line(text, dim=True)

    def error(self, text: str) -> None:
        self.failed = True
        self._line(f"Error: {text}", fg="red")

    def sessions(self, listed: Sequence[Listed]) -> None:
        self._fresh_line()
        for number, item in enumerate(listed, 1):
            at = _moment(item.session.updated_at)
            mark = "*" if item.current else " "
            line = f"{mark}{number:>3}  {at}  {one_line(item.label) or '(nothing said yet)'}"
            self._out(f"{self._wrapped(line, LABEL_COLUMN)}\n", bold=item.current)

    def hits(self, hits: Sequence[Hit]) -> None:
        self._fresh_line()
        for number, hit in enumerate(hits, 1):
            line = f" {number:>3}  {_moment(hit.at)}  {one_line(hit.label) or '(no title)'}"
            self._out(f"{self._wrapped(line, LABEL_COLUMN)}\n", bold=True)
            if hit.snippet:
                self._out(f"{self._wrapped(f'      {one_line(hit.snippet)}')}\n")
        if not hits:
            self.notice("Nothing was found.")

    def text(self, text: str, hanging: int = 0) -> None:
        """Something that was asked for; lines that are too long go on in that column."""
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
                case AssistantMessage(text=text):
                    self._answer(clean(text))
                    self._fresh_line()
                case ToolCallMessage(tool_call=call):
                    self._inputs[call.id] = call.input
                case ToolResultMessage(tool_result=result):
                    self._tool({"toolId": result.id, "toolName": result.name}, result.output.value)
                case ErrorMessage(content=text):
                    self._line(f"Error: {text}", fg="red")
        if not messages:
            self.notice("Nothing was said yet.")

    # --- lines and what passes

    def _answer(self, text: str) -> None:
        self._clear()
        if text and self._markdown is not None:
            self._write(self._markdown.feed(text))
            self._at_line_start = self._markdown.at_line_start
        elif text:
            self._out(text)
            self._at_line_start = text.endswith("\n")

    def _tool(self, data: dict[str, object], result: str) -> None:
        given = self._inputs.pop(str(data.get("toolId")), None)
        asked = msgspec.json.encode(given).decode() if given else ""
        self.notice(one_line(f"[{data.get('toolName')}] {asked} → {result}"))

    def _end(self, data: dict[str, object]) -> None:
        self._inputs.clear()
        usage = data.get("usage")
        counted = usage if isinstance(usage, dict) else {}
        duration = data.get("duration")
        seconds = duration / 1000 if isinstance(duration, int) else 0
        parts = ["interrupted"] if data.get("outcome") == "interrupted" else []
        if counted.get("inputTokens") or counted.get("outputTokens"):
            about = "about " if counted.get("estimated") else ""
            parts.append(f"{about}{counted.get('inputTokens')} tokens in, {counted.get('outputTokens')} out")
        parts.append(f"{seconds:.1f} s")
        if model := data.get("model"):
            parts.append(str(model))
        self.notice(one_line(f"({' · '.join(parts)})"))

    def _line(self, text: str, *, dim: bool = False, fg: str | None = None) -> None:
        self._fresh_line()
        # Not `dim=False`: click would then write the code that ends dimness.
        click.secho(self._wrapped(clean(text)), err=True, color=self._color, dim=dim or None, fg=fg)

    def _wrapped(self, text: str, hanging: int = 0) -> str:
        """For people; a pipe gets lines as they are."""
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

    def _pass(self, text: str) -> None:
        """A word about what is going on, until the next thing is shown."""
        if self._live and self._at_line_start:
            self._clear()
            self._out(text[: shutil.get_terminal_size().columns - 1], dim=True)
            self._passing = True

    def _clear(self) -> None:
        if self._passing:
            self._out(_ERASE_LINE)
            self._passing = False

    def _out(self, text: str, *, dim: bool = False, bold: bool = False) -> None:
        styled = click.style(text, dim=dim or None, bold=bold or None) if dim or bold else text
        if text is _ERASE_LINE:
            self._write(text)
        else:
            click.echo(styled, nl=False, color=self._color)
            sys.stdout.flush()

    def _write(self, text: str) -> None:
        """For a terminal only: erasing is no colour and wanted also under NO_COLOR, and `Markdown` knows of that itself."""
        sys.stdout.write(text)
        sys.stdout.flush()


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).strftime("%Y-%m-%d %H:%M")
