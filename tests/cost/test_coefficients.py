"""Measured coefficients."""

from pathlib import Path

import msgspec
import pytest
from bench.coefficients import FILE, INSTALLED
from tests.cost.coefficients import ROUND

from agentvm.cost import coefficients
from agentvm.cost.coefficients import Measured
from agentvm.errors import InvalidInput


def test_every_shipped_number_has_a_unit_and_a_source() -> None:
    shipped = coefficients.shipped()
    numbers = [value for name in shipped.__struct_fields__ if isinstance(value := getattr(shipped, name), Measured)]
    assert len(numbers) == 15
    assert all(each.value > 0 and each.unit and each.source for each in numbers)


def test_the_shipped_edge_costs_at_most_three_requests_and_four_rows_a_turn() -> None:
    edge = coefficients.shipped().edge
    assert edge is not None
    assert edge.object_requests_per_turn.value < edge.object_requests_per_booked_turn.value <= 3
    assert max(edge.rows_per_turn.value, edge.rows_per_booked_turn.value) <= 4
    assert edge.cpu_per_turn.unit == "ms"


def test_the_installed_coefficients_are_those_of_the_results() -> None:
    assert INSTALLED.read_bytes() == FILE.read_bytes()


def test_a_run_of_the_user_is_read_back(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_bytes(msgspec.json.encode(ROUND))
    assert coefficients.read(file) == ROUND


def test_a_file_without_coefficients_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"date": "2026-11-17"}')
    with pytest.raises(InvalidInput, match=r"mine\.json has no coefficients.*bench\.cost"):
        coefficients.read(file)
