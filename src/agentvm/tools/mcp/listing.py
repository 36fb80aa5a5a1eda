"""MCP lists — the tools of a server, validated before a model receives them, and compared with the pinned ones.

A server's texts are a stranger's: descriptions are cut and cleaned, names and schemas checked. The digest is computed from the
server's original text, not from the cleaned one, so that a change cannot hide in a removed part.
"""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from agentvm.errors import shorten
from agentvm.errors.resource import ResourceInvalid, ResourceTooLarge
from agentvm.errors.tool import McpChanged
from agentvm.model.base import Record
from agentvm.model.resource import canonical, digest_of
from agentvm.resources.schema import check_schema
from agentvm.tools.base import plain_text

DESCRIPTION_MAX = 4_000
LISTED_MAX = 500
HEADER_KEYWORD = "x-mcp-header"
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
_DIFF_MAX = 4_000


class ListedTool(Record):
    """A tool as the server describes it."""

    name: str
    input_schema: dict[str, object]
    title: str | None = None
    description: str | None = None
    output_schema: dict[str, object] | None = None
    annotations: dict[str, object] | None = None

    @property
    def digest(self) -> str:
        """Digest of name, title, description, schemas and annotations."""
        return digest_of(
            canonical(
                {
                    "name": self.name,
                    "title": self.title,
                    "description": self.description,
                    "inputSchema": self.input_schema,
                    "outputSchema": self.output_schema,
                    "annotations": self.annotations,
                }
            )
        )

    @property
    def shown(self) -> str:
        """The description for the model and for people, the same for both."""
        return clean(self.description or self.title or "") or self.name

    @property
    def copies_to_headers(self) -> bool:
        """Whether arguments are to be copied into HTTP headers."""
        return HEADER_KEYWORD in canonical(self.input_schema).decode()


@dataclass(frozen=True, slots=True)
class ListReading:
    """A list as it was read, not examined yet."""

    tools: tuple[ListedTool, ...]
    ttl_seconds: float
    private: bool
    """Whether other users of the server may be offered other tools."""


class Listing(Record):
    """The tools of a server at one time."""

    tools: dict[str, ListedTool]
    digests: dict[str, str]
    copying: frozenset[str] = frozenset()
    """Names of tools whose arguments are to be copied into HTTP headers, where proxies log them."""
    unusable: dict[str, str] = msgspec.field(default_factory=dict)
    """Names of tools that cannot be offered, with the reason."""

    def select(self, patterns: Sequence[str]) -> tuple[ListedTool, ...]:
        """Returns the tools that match one of the patterns, in the order of their names; all when there are none."""
        names = sorted(name for name in self.tools if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
        return tuple(self.tools[name] for name in names)

    def pinned(self, name: str, pin: str, old: "ListedTool | None" = None) -> ListedTool:
        """Returns a tool that is unchanged; `McpChanged` names the changes, with the difference from `old`."""
        tool = self.tools.get(name)
        if tool is None:
            why = self.unusable.get(name, "the server no longer offers it")
            raise McpChanged(f"{shorten(name)} is suspended: {why}", details={"tool": name, "pinned": pin, "current": None})
        if self.digests[name] == pin:
            return tool
        changes = {} if old is None else difference(old, tool)
        members = f" ({', '.join(changes)})" if changes else ""
        raise McpChanged(
            f"{shorten(name)} is suspended: the server has changed its description since it was pinned{members}; "
            "the publisher of the tool can review the change and publish it again with avm resource pin",
            details={"tool": name, "pinned": pin, "current": self.digests[name], "changes": changes},
        )


def examine(tools: Iterable[ListedTool]) -> Listing:
    """Sorts the tools of a server into those that can be offered and those that cannot."""
    good: dict[str, ListedTool] = {}
    unusable: dict[str, str] = {}
    for count, tool in enumerate(tools):
        if count >= LISTED_MAX:
            unusable["…"] = f"a server may have {LISTED_MAX} tools"
            break
        name = shorten(plain_text(tool.name))
        if tool.name in good or tool.name in unusable:
            good.pop(tool.name, None)
            unusable[name] = "the server offers two tools of this name"
        elif fault := _fault(tool):
            unusable[name] = fault
        else:
            good[tool.name] = tool
    return Listing(
        tools=good,
        digests={name: tool.digest for name, tool in good.items()},
        copying=frozenset(name for name, tool in good.items() if tool.copies_to_headers),
        unusable=unusable,
    )


def _fault(tool: ListedTool) -> str | None:
    if not _NAME.fullmatch(tool.name):
        return "its name has other characters than letters, digits and _ . / -, or is too long"
    try:
        check_schema("inputSchema", tool.input_schema, of_object=True)
        if tool.output_schema is not None:
            check_schema("outputSchema", tool.output_schema)
    except (ResourceInvalid, ResourceTooLarge) as error:
        return str(error)
    return _header_fault(tool) if tool.copies_to_headers else None


def _header_fault(tool: ListedTool) -> str | None:
    # Of the package that makes the headers; a list that was read has loaded it.
    from mcp.shared.inbound import find_invalid_x_mcp_header  # noqa: PLC0415

    fault = find_invalid_x_mcp_header(tool.input_schema)
    return None if fault is None else f"its arguments cannot become HTTP headers: {fault}"


def clean(text: str) -> str:
    """Returns an untrusted text without characters that people do not see, cut to `DESCRIPTION_MAX`."""
    visible = "".join(
        character for character in text if character in "\n\t" or unicodedata.category(character) not in _INVISIBLE
    )
    return visible if len(visible) <= DESCRIPTION_MAX else f"{visible[: DESCRIPTION_MAX - 1]}…"


def clean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a schema whose texts for the model are clean."""

    def cleaned(value: Any) -> Any:
        match value:
            case Mapping():
                return {
                    name: clean(item) if name in ("title", "description") and isinstance(item, str) else cleaned(item)
                    for name, item in value.items()
                }
            case list():
                return [cleaned(item) for item in value]
            case _:
                return value

    return {name: cleaned(item) for name, item in schema.items()}


def difference(old: ListedTool, new: ListedTool) -> dict[str, str]:
    """Returns the members that changed, each with the lines that were removed and added."""
    changes = {}
    for member in ("title", "description", "input_schema", "output_schema", "annotations"):
        before, after = _readable(getattr(old, member)), _readable(getattr(new, member))
        if before != after:
            texts = (before[:_DIFF_MAX].splitlines(), after[:_DIFF_MAX].splitlines())
            lines = difflib.unified_diff(*texts, "pinned", "current", n=1, lineterm="")
            changes[member] = "\n".join(lines)[:_DIFF_MAX]
    return changes


def _readable(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return clean(value)
    return canonical(value).decode().replace(",", ",\n") if isinstance(value, Mapping) else str(value)
