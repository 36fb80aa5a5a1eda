"""The price table."""

from pathlib import Path

import pytest

from agentvm.cost import prices
from agentvm.errors import InvalidInput


def test_every_shipped_price_has_a_source() -> None:
    table = prices.shipped()
    rates = [table.disk, table.backup, table.traffic]
    assert all(
        [*(each.source for each in table.machines), *(each.source for each in rates), *(each.source for each in table.peers)]
    )


def test_a_table_of_the_user_replaces_the_shipped_one(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(prices.shipped_text().replace("price: 12.00", "price: 9.50"), "utf-8")
    assert prices.read(file).machines[0].price == 9.5


@pytest.mark.parametrize("text", ["", "[]", "date: today", "date: 2026-11-17\nmachines: []", "a: [", "\x00", "discs: 1"])
def test_a_file_that_is_no_price_table_is_refused_by_name(tmp_path: Path, text: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(InvalidInput, match=r"prices\.yaml is not a price table"):
        prices.read(file)


def test_an_unknown_field_is_not_ignored(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(prices.shipped_text() + "egress: {price: 1}\n", "utf-8")
    with pytest.raises(InvalidInput, match="egress"):
        prices.read(file)


@pytest.mark.parametrize(
    ("shipped", "own"),
    [
        ("price: 12.00", "price: .inf"),
        ("price: 12.00", "price: -1"),
        ("per_turn: 0.005", "per_run: 0.005"),
        ("source: public price page, November 2026", 'source: " "'),
    ],
)
def test_no_price_is_without_bounds_a_known_name_and_its_source(tmp_path: Path, shipped: str, own: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(prices.shipped_text().replace(shipped, own, 1), "utf-8")
    with pytest.raises(InvalidInput, match=r"prices\.yaml is not a price table"):
        prices.read(file)
