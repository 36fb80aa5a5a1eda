"""Source files — the files of the project as the house rules read them."""

import ast
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SRC = ROOT / "src" / "agentvm"


@functools.cache
def parse(text: str) -> ast.Module:
    return ast.parse(text)


@functools.cache
def walk(text: str) -> tuple[ast.AST, ...]:
    """Every node of a text; a dozen rules look at each of them."""
    return tuple(ast.walk(parse(text)))


def forget_trees() -> None:
    parse.cache_clear()
    walk.cache_clear()


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file: `name` is its path below src/agentvm, or below the project for the rest."""

    name: str
    text: str

    @property
    def tree(self) -> ast.Module:
        return parse(self.text)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return walk(self.text)


def project_files() -> Iterator[Path]:
    """Every file that could be committed; what the tools leave behind is hidden or named here."""
    for folder, folders, files in os.walk(ROOT):
        skip = {"node_modules", "__pycache__", "dist", "build"}
        folders[:] = [name for name in folders if name not in skip and (name in {".ci", ".github"} or name[0] != ".")]
        yield from (Path(folder, name) for name in files if name not in {".git", ".make.lock", ".coverage"})


def project_texts(*folders: str) -> list[Module]:
    found = []
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if not folders or name.startswith(folders):
            try:
                found.append(Module(name, path.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return found


def source_modules() -> list[Module]:
    return [Module(path.relative_to(SRC).as_posix(), path.read_text(encoding="utf-8")) for path in sorted(SRC.rglob("*.py"))]
