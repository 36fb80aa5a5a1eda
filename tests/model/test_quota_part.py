import pytest

from agentvm.model.quota_part import ENTERED, LimitKey
from agentvm.storage.sql.accounts import quota_parts


@pytest.mark.parametrize(
    ("metric", "ends", "here"),
    [("requests_per_minute", 60_000, True), ("tokens_per_day", 60_000, False), ("connections", None, False)],
)
def test_only_the_node_knows_what_is_in_no_ledger_and_has_a_window(metric: str, ends: int | None, here: bool) -> None:
    assert LimitKey(metric, "", 0, ends).is_counted_here is here


def test_the_store_knows_the_sum_of_every_metric_that_is_in_the_ledger() -> None:
    assert set(quota_parts._ENTERED) == ENTERED
