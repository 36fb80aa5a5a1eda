"""The page of observability and what is in deploy/: every metric is named, and none that is not there."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.desk import Desk, open_desk
from tests.docs.documents import ROOT, blocks, first_column, read
from tests.observability.test_metrics import counting
from tests.observability.worlds import gauges

from agentvm.config import load
from agentvm.observability.exposition import Samples, samples
from agentvm.observability.timeline import Stages

PAGE = read("docs/observability.md")
DEPLOY = ROOT / "deploy"
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def made() -> Samples:
    return samples(counting(), gauges())


def labels_of() -> dict[str, set[str]]:
    """The names in the exposition, and their labels where the metric is never without."""
    return {family.name + suffix: set() for family in made() for suffix in SUFFIXES[family.type]}


def told() -> set[str]:
    """As the page names them: a histogram by its own name."""
    return {family.name + ("" if family.type == "histogram" else SUFFIXES[family.type][0]) for family in made()}


def expressions() -> Iterator[tuple[str, str]]:
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    for panel in json.loads((DEPLOY / "grafana.json").read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_the_page_names_every_metric_and_no_other() -> None:
    assert set(first_column(PAGE, "metric | labels |")) == told()


def test_the_page_names_the_labels() -> None:
    rows = {line.split("`")[1]: line.split("|")[2] for line in PAGE.splitlines() if line.startswith("| `agentvm_")}
    counted = counting()
    for family in samples(counted, gauges()):
        # A family without samples still knows its labels.
        known = set(getattr(family, "_labelnames", ()))
        name = family.name + ("" if family.type == "histogram" else SUFFIXES[family.type][0])
        assert set(re.findall(r"`(\w+)`", rows[name])) == known, name


def test_the_page_names_the_stages() -> None:
    assert tuple(first_column(PAGE, "stage |")) == Stages.__struct_fields__


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_alerts_and_panels_ask_for_metrics_that_are_there(where: str, expression: str) -> None:
    used = re.findall(r"agentvm_\w+", expression)
    assert used or "up{" in expression
    assert [name for name in used if name not in labels_of()] == []
    assert expression.count("(") == expression.count(")")


def test_the_alerts_are_whole() -> None:
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text("utf-8"))["groups"]
    for rule in group["rules"]:
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names)


def test_the_dashboard_is_whole() -> None:
    board: dict[str, Any] = json.loads((DEPLOY / "grafana.json").read_text("utf-8"))
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
    assert all(target["legendFormat"] for panel in panels for target in panel["targets"])


def test_the_scrape_config_on_the_page_is_the_one_that_is_shipped() -> None:
    whole = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))
    block, _ = blocks(PAGE, "yaml")
    assert whole["scrape_configs"] == yaml.safe_load(block.text)["scrape_configs"]
    assert all((DEPLOY / file).exists() for file in whole["rule_files"])


def test_the_collector_of_the_page_can_be_configured_so(tmp_path: Path) -> None:
    _, block = blocks(PAGE, "yaml")
    file = tmp_path / "config.yaml"
    file.write_text(block.text, encoding="utf-8")
    found = load(file, environ={"OTEL_HEADERS": "authorization=Bearer%20x"}).otel
    assert (found.endpoint, found.sample_ratio) == ("https://collector.example.org", 0.1)
    assert found.headers is not None
    (line,) = (line for one in blocks(PAGE, "sh") for line in one.text.splitlines() if line.startswith("avm serve"))
    given = dict(word.split("=", 1) for word in shlex.split(line) if word.startswith("otel."))
    said = load(None, environ={}, settings=given).otel
    assert (said.endpoint, said.metrics) == ("http://localhost:4318", "off")


async def run(desk: Desk, line: str) -> str:
    return await desk.ok(*shlex.split(line)[1:])


async def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    lines = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines()]
    async with open_desk() as desk:
        status = (await run(desk, next(line for line in lines if line == "avm status"))).splitlines()[-1]
        # A busy machine makes a warning out of the delay of the event loop.
        assert status.startswith(("ok:", "warn:"))
        made_key = await run(desk, next(line for line in lines if line.startswith("avm key create")))
        assert "avm_" in made_key
    assert [line for line in lines if not line.startswith(("avm ", "curl ", "pip ", "docker "))] == []
