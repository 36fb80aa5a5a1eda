import click
import pytest
from click.testing import CliRunner
from tests.cli.desk import open_desk

from agentvm.cli.quota import quota, read_limit
from agentvm.model.account import METRICS


async def test_a_limit_is_set_shown_and_removed() -> None:
    async with open_desk() as desk:
        alice = await desk.record("user", "create", "alice")
        made = await desk.record("quota", "set", "tokens_per_day", "--hard", "1,000", "--soft", "800", "--user", "alice")
        assert (made["metric"], made["hard"], made["soft"], made["userId"]) == ("tokens_per_day", 1000, 800, alice["userId"])
        said = await desk.ok("quota", "set", "budget_per_month", "--hard", "25.50")
        assert "budget_per_month        $25.50" in said
        listed = await desk.record("quota", "list")
        assert {"budget_per_month", "tokens_per_day", "connections"} <= {item["metric"] for item in listed}
        own = [item for item in await desk.record("quota", "list", "--user", "alice") if item["source"] == "user"]
        assert [item["hard"] for item in own] == [1000]
        assert await desk.ok("quota", "delete", "tokens_per_day", "--user", "alice", "--yes")
        left = await desk.record("quota", "list", "--user", "alice")
        assert {item["source"] for item in left} == {"plan"}
        await desk.ok("quota", "set", "tokens_per_day", "--hard", "500", "--each-user")
        (each,) = [item for item in await desk.record("quota", "list", "--user", "alice") if item["metric"] == "tokens_per_day"]
        assert (each["hard"], each["source"]) == (500, "eachUser")
        assert await desk.ok("quota", "delete", "tokens_per_day", "--each-user", "--yes")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("set", "tokens_per_day"), 2),
        (("set", "tokens_per_year", "--hard", "1"), 2),
        (("set", "tokens_per_day", "--hard", "many"), 2),
        (("set", "tokens_per_day", "--hard", "1", "--soft", "2"), 1),
        (("set", "tokens_per_day", "--hard", "1", "--user", "nobody"), 5),
        (("delete", "tokens_per_day", "--yes"), 5),
    ],
)
async def test_what_cannot_be_done_is_explained(arguments: tuple[str, ...], code: int) -> None:
    async with open_desk() as desk:
        done = await desk.avm("quota", *arguments)
        assert (done.code, done.out) == (code, "")
        assert done.err


def test_a_limit_is_a_number_and_for_money_dollars() -> None:
    assert read_limit("tokens_per_day", "1_000,000", "--hard") == 1_000_000
    assert read_limit("budget_per_month", "$0.50", "--hard") == 500_000_000
    for metric, text in (
        ("tokens_per_day", "1.5"),
        ("tokens_per_day", "-1"),
        ("budget_per_month", "NaN"),
        ("resources", "1e99"),
    ):
        with pytest.raises(click.BadParameter):
            read_limit(metric, text, "--hard")


@pytest.mark.parametrize("command", ["set", "delete"])
def test_the_help_lists_the_metrics_below_a_short_usage(command: str) -> None:
    text = CliRunner().invoke(quota, [command, "--help"]).stdout
    assert text.splitlines()[0].endswith(f"{command} [OPTIONS] METRIC")
    assert [metric for metric in METRICS if metric not in text] == []
