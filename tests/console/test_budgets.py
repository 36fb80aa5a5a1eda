"""The size of the build, and what it may hold."""

import gzip
import json
import re
from pathlib import Path

import pytest

from agentvm.server.console import DIRECTORY

FIRST_LOAD_BYTES, CHUNK_BYTES, LIBRARY_BYTES, STYLE_BYTES = 120 * 1024, 12 * 1024, 110 * 1024, 12 * 1024
SOURCE = Path(__file__).parents[2] / "console"
LIBRARIES = ("highlight", "formula")
"""Chunks that are a library, loaded when a text needs it."""
REQUESTS_MAX = 12
# Names of vocabularies and the text of an error, which no browser fetches.
NAMES = re.compile(r"https?://www\.w3\.org/[\w/.#-]*|https://github\.com/(?:markedjs|highlightjs)/[\w/.#-]*")


@pytest.fixture
def index() -> str:
    path = DIRECTORY / "index.html"
    if not path.exists():
        pytest.skip("console: it is not built; make console")
    return path.read_text(encoding="utf-8")


def zipped(path: Path) -> int:
    return len(gzip.compress(path.read_bytes()))


def first_files(index: str) -> list[Path]:
    return [DIRECTORY / "index.html", *(DIRECTORY / name for name in re.findall(r'(?:src|href)="/([^"]+)"', index))]


def test_the_first_load_is_small(index: str) -> None:
    files = first_files(index)
    assert len(files) <= REQUESTS_MAX
    assert sum(map(zipped, files)) <= FIRST_LOAD_BYTES
    assert sum(zipped(path) for path in files if path.suffix == ".css") <= STYLE_BYTES


def test_the_frame_is_painted_without_waiting_for_another_file(index: str) -> None:
    assert "<style>" in index
    assert index.count('rel="stylesheet"') == index.count('rel="stylesheet" media="print"') == 1


def test_a_page_that_is_loaded_later_is_small(index: str) -> None:
    later = set(DIRECTORY.glob("assets/*.js")) - set(first_files(index))
    assert later
    sizes = {path.name: zipped(path) for path in later}
    most = {name: LIBRARY_BYTES if name.startswith(LIBRARIES) else CHUNK_BYTES for name in sizes}
    assert {name: size for name, size in sizes.items() if size > most[name]} == {}


def test_nothing_is_loaded_from_elsewhere(index: str) -> None:
    for path in DIRECTORY.rglob("*"):
        if path.suffix in {".html", ".js", ".css", ".svg"}:
            text = NAMES.sub("", path.read_text(encoding="utf-8"))
            assert re.findall(r"https?://[\w.-]+|(?<=[\"'(])//[\w-]+\.[\w.-]+", text) == [], path.name


def test_the_licenses_of_all_that_is_in_the_build_are_beside_it(index: str) -> None:
    sources = "".join(path.read_text("utf-8") for path in (SOURCE / "src").rglob("*.ts*"))
    imported = set(re.findall(r'from "((?:@[\w-]+/)?[a-z][\w.-]*)', sources))
    assert {"preact", "marked", "temml", "@preact/signals"} <= imported
    locked = json.loads((SOURCE / "package-lock.json").read_text("utf-8"))["packages"]
    text = (DIRECTORY / "licenses.txt").read_text("utf-8")
    for name in imported:
        assert f"{name} {locked[f'node_modules/{name}']['version']} (" in text
    assert text.count("Permission is hereby granted") >= 5
