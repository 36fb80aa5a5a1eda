import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.documents import PAGES, ROOT, name, read

SRC = ROOT / "src" / "agentvm"


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """The names under which a reader's browser finds the headings."""
    headings = re.findall(r"^#+ (.+)$", without_code(text), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower() for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def broken(page: Path, text: str) -> list[str]:
    found = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path) if path else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            found.append(target)
    return found


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken(page, read(page)) == []


def test_a_broken_link_and_a_broken_anchor_are_seen() -> None:
    page = ROOT / "README.md"
    text = "[a](gone.md) [b](docs/errors.md#gone) [c](docs/errors.md#codes) [d](https://example.org)\n```\n[e](no.md)\n```\n"
    assert broken(page, text) == ["gone.md", "docs/errors.md#gone"]


def test_the_architecture_names_every_folder_and_no_path_that_is_gone() -> None:
    text = read("ARCHITECTURE.md")
    told = set(re.findall(r"^ {2}(\w+)(?:/|\.py) ", text, re.MULTILINE))
    top = {path.stem for path in SRC.iterdir() if (path.is_dir() or path.suffix == ".py") and path.stem[0] != "_"}
    assert top <= told
    for path_text in re.findall(r"`((?:\w+/)+\w+\.(?:py|mjs|md|html))`", text):
        assert (SRC / path_text).exists() or (ROOT / path_text).exists(), path_text


def test_the_architecture_shows_the_layers_of_the_contract() -> None:
    contracts = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    page = read("ARCHITECTURE.md")
    shown = re.search(r"<!-- layers.*?```text\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines() == [re.sub(r"[()]", "", layer) for layer in layers]


def test_the_first_pages_are_short() -> None:
    for page, most in (("README.md", 120), ("README.zh-CN.md", 120), ("ARCHITECTURE.md", 200)):
        assert len(read(page).splitlines()) <= most, page
