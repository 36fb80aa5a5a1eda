"""The glossary is closed and true: its words are in the source, and public names are in it."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.source_files import ROOT, SRC, Module, source_modules
from tests.test_house_rules import none

import agentvm
from agentvm.cli.main import COMMANDS

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE, re.MULTILINE)
FORBIDDEN = set(re.findall(r"[A-Z][a-z]+", PAGE.rpartition("these:")[2]))
# Forbidden words that still name something. Remove yours when it is renamed.
STILL_NAMED = {"Outlet", "Voice"}
# Commands that are verbs or about the installation, and words of classes that are no nouns of the domain.
NO_TERMS = set(
    "chat login logout whoami export import restore doctor completion version status errors serve view wire error scripted vm"
    " base drafts".split()
)


def words_of(name: str) -> list[str]:
    """The words of a class or module name: `ImageConfig` and `image_config` are image and config."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]


def test_the_terms_are_sorted_and_each_is_explained_once() -> None:
    assert sorted(TERMS, key=str.lower) == TERMS
    assert len(set(TERMS)) == len(TERMS) > 50


def test_every_term_is_used_in_the_source() -> None:
    text = "\n".join(module.text for module in source_modules()).lower()
    none(term for term in TERMS if not all(re.search(rf"\b{word}", text) for word in words_of(term)))


def test_every_noun_of_a_public_name_is_a_term() -> None:
    commands = (path.stem for path in (SRC / "protocol" / "commands").glob("*.py") if path.stem != "__init__")
    public = [name for name in agentvm.__all__ if name[0].isupper()]
    terms = {word for term in TERMS for word in words_of(term)} | NO_TERMS
    nouns = {word for name in (*public, *commands, *COMMANDS) for word in words_of(name)}
    none(sorted(noun for noun in nouns if noun not in terms and noun.removesuffix("s") not in terms))


def named_after(modules: list[Module], forbidden: set[str]) -> Iterator[str]:
    """Classes and modules whose names contain a forbidden word."""
    for module in modules:
        for name in (Path(module.name).stem, *re.findall(r"^ *class (\w+)", module.text, re.MULTILINE)):
            if any(word.capitalize() in forbidden for word in words_of(name)):
                yield f"{module.name}: {name}"


def test_no_class_or_module_is_named_after_a_forbidden_word() -> None:
    assert len(FORBIDDEN) == 15
    none(named_after(source_modules(), FORBIDDEN - STILL_NAMED))


def test_a_forbidden_word_is_seen() -> None:
    planted = [Module("tenants/office.py", "class TenantOffice: ...\nclass Tenant: ...\n")]
    assert list(named_after(planted, FORBIDDEN)) == ["tenants/office.py: office", "tenants/office.py: TenantOffice"]


def test_words_of_names_are_seen() -> None:
    assert words_of("ImageConfig") == words_of("image_config") == ["image", "config"]
    assert words_of("AgentVMError") == ["agent", "vm", "error"]
    assert words_of("HTTPServer") == ["http", "server"]
