"""Exports — the public names are a decision: few, importable, and each one documented."""

import re
from pathlib import Path

import agentvm

API = Path(__file__).resolve().parent.parent / "docs" / "api.md"
PUBLIC_NAMES = 30


def documented(text: str) -> set[str]:
    """The names that docs/api.md gives a heading: ``### `name` `` or ``### `name(arguments)` ``."""
    return set(re.findall(r"^#{2,4} `([A-Za-z_]+)\b[^`]*`", text, re.MULTILINE))


def test_there_are_few_public_names() -> None:
    assert len(agentvm.__all__) == len(set(agentvm.__all__)) <= PUBLIC_NAMES


def test_every_public_name_is_there() -> None:
    assert [name for name in agentvm.__all__ if not hasattr(agentvm, name)] == []


def test_the_public_names_are_the_documented_ones() -> None:
    assert set(agentvm.__all__) == documented(API.read_text(encoding="utf-8"))


def test_a_documented_name_is_a_heading_in_code() -> None:
    text = "# API\n## Names\n### `AgentVM`\nA `Turn`.\n### `remote_runtime(url)`\n```\n### not a `name`\n```\n"
    assert documented(text) == {"AgentVM", "remote_runtime"}
