"""Quotes — writes what was recorded into the documents that quote it: the bills of `avm cost`, the run with a million users.

    python -m bench.quotes

`bench.cost`, `bench.edge` and `bench.million` do so after they have written the results of this release. Sentences about the
numbers are not written by it: read them again.
"""

import json
import re
from pathlib import Path
from typing import Any

from agentvm.cost import prices
from agentvm.cost.coefficients import read
from agentvm.cost.estimate import estimate
from agentvm.cost.shapes import SHAPES
from agentvm.cost.workload import Workload
from bench.coefficients import FILE
from bench.million_page import RESULTS, page

ROOT = Path(__file__).parent.parent
DOCUMENT = ROOT / "docs" / "cost.md"
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
IDLE_DISK = re.compile(r"(?<=\*\*)[\d,]+(?= (?:bytes|字节)\*\*)")
"""What an idle user takes."""
BILL = re.compile(r"\*\*\$[\d.,]+\*\*")
TABLE = re.compile(r"\| \| \|\n\|---\|---\|\n(?:\|.*\n)+")


def bills() -> list[str]:
    """The bill of the usual workload in each shape."""
    measured = read(FILE)
    totals = [estimate(Workload(), measured, prices.shipped(), shape).total for shape in SHAPES]
    if None in totals:
        raise SystemExit("a shape has no price with these coefficients: read `avm cost`, and say so in docs/cost.md")
    return [f"**${total:,.2f}**" for total in totals]


def filled(text: str, bills_now: list[str]) -> str:
    left = iter(bills_now)
    return BILL.sub(lambda quote: next(left), text)


def quoting(results: dict[str, Any]) -> dict[Path, str]:
    """The documents with the numbers that are recorded."""
    now = bills()
    texts = {path: path.read_text("utf-8") for path in (DOCUMENT, *READMES)}
    quoted = {path: filled(text, now) for path, text in texts.items()}
    for path in READMES:
        quoted[path] = IDLE_DISK.sub(f"{results['disk_bytes_per_user']:,}", quoted[path])
    quoted[DOCUMENT] = TABLE.sub(lambda quote: page(results) + "\n", quoted[DOCUMENT], count=1)
    return quoted


def write() -> None:
    for path, text in quoting(json.loads(RESULTS.read_text("utf-8"))).items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
