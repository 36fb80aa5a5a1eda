"""avm cost."""

import json
import re
from pathlib import Path

from bench.million_page import RESULTS, page
from bench.quotes import quoting
from click.testing import CliRunner

from agentvm.cli.main import avm
from agentvm.cost.shapes import SHAPES

ROOT = Path(__file__).parent.parent.parent
QUOTING = ("docs/cost.md", "README.md", "README.zh-CN.md")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(avm, ["cost", *arguments])
    return result.exit_code, result.output


def test_the_bill_names_the_needs_the_lines_and_what_they_are_measured_by() -> None:
    code, text = run("--users", "1000", "--turns", "30000")
    assert code == 0
    for words in (
        "1,000 users",
        "deltas/s x",
        "ONE SERVER AND A SPARE",
        "OTHER PLATFORMS",
        "WHAT IF",
        "bench.turns",
        "Measured 20",
    ):
        assert words in text


def test_the_bill_of_the_edge_says_what_was_counted_and_multiplied() -> None:
    text = run("--shape", "edge", "--turns", "1000", "--visits", "2")[1]
    assert "1,000 turns x" in text
    assert "2,000 connections x" in text
    assert "bench.edge" in text


def test_json_has_the_whole_estimate() -> None:
    found = json.loads(run("--json")[1])
    assert found["workload"]["users"] == 1_000_000
    assert found["total"] == sum(line["price"] for line in found["lines"])
    assert found["measured"]["cpu_per_turn"]["source"]


def test_the_documents_quote_the_bill_of_the_shipped_coefficients() -> None:
    bills = [f"${json.loads(run('--json', '--shape', shape)[1])['total']:,.2f}" for shape in SHAPES]
    quoted = {name: re.findall(r"\*\*(\$[\d.,]+)\*\*", (ROOT / name).read_text("utf-8")) for name in QUOTING}
    assert quoted == {"docs/cost.md": bills, "README.md": bills[:1], "README.zh-CN.md": bills[:1]}


def test_the_documents_quote_the_recorded_run_with_a_million_users() -> None:
    recorded = json.loads(RESULTS.read_text("utf-8"))
    assert recorded["users"] == 1_000_000
    assert page(recorded) in (ROOT / "docs" / "cost.md").read_text("utf-8")
    # "No memory", as both say, is what the process of a server does not grow by.
    assert recorded["rss_bytes_per_user"] < 1
    for name, unit in (("README.md", "bytes"), ("README.zh-CN.md", "字节")):
        assert f"**{recorded['disk_bytes_per_user']:,} {unit}**" in (ROOT / name).read_text("utf-8")


def test_what_is_measured_anew_is_written_into_the_documents_by_the_benchmark() -> None:
    recorded = json.loads(RESULTS.read_text("utf-8"))
    assert {path: path.read_text("utf-8") for path in quoting(recorded)} == quoting(recorded)
    document = quoting({**recorded, "backup_seconds": 12_345})[ROOT / "docs" / "cost.md"]
    assert "12345 s" in document
    assert page(recorded) not in document


def test_a_table_of_prices_can_be_printed_edited_and_used(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(run("--print-prices")[1].replace("price: 12.00", "price: 1.00"), "utf-8")
    cheaper, usual = (json.loads(run("--json", *more)[1])["total"] for more in (("--prices", str(file)), ()))
    assert round(usual - cheaper, 2) == 22


def test_what_one_server_cannot_carry_is_said_instead_of_priced() -> None:
    code, text = run("--turns", "30000000000")
    assert code == 0
    assert "This shape has no price" in text
    assert "--shape cluster" in text
