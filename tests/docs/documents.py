"""Documents — the pages of the project and the code blocks in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "examples").glob("*.md")])


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `output` is the text block right behind a Python block, `mark` the comment right before any."""

    language: str
    text: str
    line: int
    output: str | None = None
    mark: str | None = None


_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def read(page: Path | str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[Block]:
    found = []
    for block in _BLOCK.finditer(text):
        if block["language"] == language:
            line = text.count("\n", 0, block.start("text")) + 1
            found.append(Block(language, block["text"], line, block["output"], block["mark"]))
    return found


def first_column(text: str, header: str) -> list[str]:
    """The code in the first cell of each row of the table with that header."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith(f"| {header} |"):
            break
    cells = []
    for line in lines:
        if not line.startswith("|"):
            break
        if code := re.match(r"\| `([^`]+)` \|", line):
            cells.append(code[1])
    return cells
