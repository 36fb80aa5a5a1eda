"""File search — patterns of names, and regular expressions over lines, in time that grows with the text and not faster.

The patterns come from a model. Python's own engine may need years for one of them, and cannot be stopped; so expressions run on
Rust's, which does not backtrack. It comes in pydantic-core.
"""

import io
import re
from collections.abc import Callable

from agentvm.errors import ToolFailed, shorten

MATCHES_MAX = 200
LINE_MAX = 10_000
"""Characters of a line that are searched."""
SHOWN_MAX = 300
"""Characters of a line in the result."""

Matches = Callable[[str], bool]


def pattern_of(text: str, *, ignore_case: bool = False) -> Matches:
    """Returns a test whether the expression matches somewhere in a line; `ToolFailed` for one that is invalid or too large."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema  # noqa: PLC0415  # Not needed by a server that starts.

    try:
        schema = core_schema.str_schema(pattern=f"(?i){text}" if ignore_case else text, regex_engine="rust-regex")
        return SchemaValidator(schema).isinstance_python
    except SchemaError as error:
        reason = str(error).rpartition("error: ")[2].rpartition("SchemaError: ")[2]
        raise ToolFailed(f"The pattern is not valid: {shorten(reason)}") from None


def glob_pattern(text: str) -> Matches:
    """Returns a test of paths. `*` and `?` stay within a name, `**` crosses folders; without `/` a pattern is of the name."""
    anywhere = "/" not in text
    parts: list[str] = []
    for piece in re.findall(r"\*\*/|\*\*|\*|\?|[^*?]+", text.removeprefix("/workspace/").removeprefix("./").removeprefix("/")):
        parts.append({"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece) or re.escape(piece))
    return pattern_of(rf"(?s)\A{'(?:[^/]+/)*' if anywhere else ''}{''.join(parts)}\z")


class FileSearch:
    """The lines that match, of the files that were looked at."""

    def __init__(self, matches: Matches) -> None:
        self._matches = matches
        self._lines: list[str] = []
        self.cut_off = False
        """Whether files were left out, because the others are too many or too large."""

    @property
    def is_full(self) -> bool:
        return len(self._lines) >= MATCHES_MAX

    def search(self, path: str, body: bytes) -> None:
        """Searches a file, unless it is no text."""
        if b"\0" in body:
            return
        # Line by line from the bytes: as texts, short lines would take thirty times the memory of the file.
        for number, whole in enumerate(io.BytesIO(body), 1):
            line = whole.removesuffix(b"\n").decode("utf-8", "replace")
            if self._matches(line[:LINE_MAX]):
                self._lines.append(f"{path}:{number}: {line[:SHOWN_MAX]}{'…' if len(line) > SHOWN_MAX else ''}")
                if self.is_full:
                    self.cut_off = True
                    return

    def shown(self) -> str:
        """Returns the result for the model."""
        lines = (
            [*self._lines, "[not everything was searched; narrow it with path, glob or pattern]"]
            if self.cut_off
            else self._lines
        )
        return "\n".join(lines) or "[no line matches]"
