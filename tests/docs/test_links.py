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


def test_the_architecture_names_every_folder() -> None:
    told = set(re.findall(r"^ {2}(\w+)(?:/|\.py) ", read("ARCHITECTURE.md"), re.MULTILINE))
    top = {path.stem for path in SRC.iterdir() if (path.is_dir() or path.suffix == ".py") and path.stem[0] != "_"}
    assert top <= told


def gone_paths(text: str) -> list[str]:
    """Paths that a page names and that are neither in the repository nor in the package, except patterns such as `a/b.py`."""
    paths = re.findall(r"`((?:[\w.]+/)+(?:\w+\.\w+)?)`", text)
    return [path for path in paths if "/a/" not in path and not (SRC / path).exists() and not (ROOT / path).exists()]


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_pages_for_contributors_name_no_path_that_is_gone(page: str) -> None:
    assert gone_paths(read(page)) == []


def test_a_path_that_is_gone_is_seen() -> None:
    assert gone_paths("`docs/gone.md` `gone/` `docs/errors.md` `runtime/turn.py` `tests/faults`") == ["docs/gone.md", "gone/"]


def unlike_source(text: str) -> list[str]:
    """Lines of the examples of a page that no operation and no setting has."""
    modules = [*(SRC / "operations").glob("*.py"), SRC / "model" / "limits.py"]
    source = "\n".join(module.read_text(encoding="utf-8") for module in modules)
    source = re.sub(r"needs=USE\b", 'needs="agent:use"', source)
    return [line for block in re.findall(r"^```py\n(.*?)^```", text, re.MULTILINE | re.DOTALL) for line in block.splitlines()
            if line.strip() not in source]  # fmt: skip


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_examples_for_contributors_are_the_source(page: str) -> None:
    assert "```py\n" in read(page)
    assert unlike_source(read(page)) == []


def test_an_example_that_the_source_has_left_is_seen() -> None:
    assert unlike_source('```py\n    """Pin a session to the top of lists, or unpin it."""\n    pinned: int = 7\n```\n') == [
        "    pinned: int = 7"
    ]


def test_the_variables_for_contributors_are_read_by_the_tests() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert [each for each in set(re.findall(r"`(AVM_\w+)", read("CONTRIBUTING.md"))) if f'"{each}"' not in tests] == []


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
