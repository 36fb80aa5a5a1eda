"""The glossary is closed and true: its words are in the source, and public names are in it."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support.source_files import ROOT, Module, source_modules
from tests.test_house_rules import none

import agentvm
from agentvm.cli.main import COMMANDS
from agentvm.operations.table import OPERATIONS

PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^\| \*\*(.+?)\*\* \|", PAGE, re.MULTILINE)
FORBIDDEN = set(re.findall(r"[A-Z][a-z]+", PAGE.rpartition("these:")[2]))
# Commands and operations that are verbs or about the installation, and words of classes that are no nouns of the domain.
NO_TERMS = set(
    "auth chat login logout whoami export import transfer restore doctor completion version status errors serve view wire error"
    " scripted vm base drafts run".split()
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


def without_term(names: Iterable[str], terms: Iterable[str]) -> list[str]:
    """The words of the names, sorted, that are not in the terms, in the singular either."""
    known = {word for term in terms for word in words_of(term)} | NO_TERMS
    nouns = {word for name in names for word in words_of(name)}
    return sorted(noun for noun in nouns if noun not in known and noun.removesuffix("s") not in known)


def test_every_noun_of_a_public_name_a_command_and_an_operation_is_a_term() -> None:
    public = [name for name in agentvm.__all__ if name[0].isupper()]
    operations = {operation.name.partition(".")[0] for operation in OPERATIONS}
    assert len(operations) > 30
    none(without_term([*public, *COMMANDS, *operations], TERMS))


def test_a_noun_without_a_term_is_seen() -> None:
    assert without_term(["ImageGizmo", "sessions"], ["Image", "Session"]) == ["gizmo"]


def named_after(modules: list[Module], forbidden: set[str]) -> Iterator[str]:
    """Classes and modules whose names contain a forbidden word."""
    for module in modules:
        for name in (Path(module.name).stem, *re.findall(r"^ *class (\w+)", module.text, re.MULTILINE)):
            if any(word.capitalize() in forbidden for word in words_of(name)):
                yield f"{module.name}: {name}"


def test_no_class_or_module_is_named_after_a_forbidden_word() -> None:
    assert len(FORBIDDEN) == 15
    none(named_after(source_modules(), FORBIDDEN))


def test_a_forbidden_word_is_seen() -> None:
    planted = [Module("tenants/office.py", "class TenantOffice: ...\nclass Tenant: ...\n")]
    assert list(named_after(planted, FORBIDDEN)) == ["tenants/office.py: office", "tenants/office.py: TenantOffice"]


def test_words_of_names_are_seen() -> None:
    assert words_of("ImageConfig") == words_of("image_config") == ["image", "config"]
    assert words_of("AgentVMError") == ["agent", "vm", "error"]
    assert words_of("HTTPServer") == ["http", "server"]
