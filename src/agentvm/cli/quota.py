"""avm quota — usage limits of a tenant and of its users."""

from decimal import Decimal, InvalidOperation

import click

from agentvm.cli.api import Api, confirm, tenant_command, yes_option
from agentvm.cli.names import named_users, user_option
from agentvm.cli.options import keep_name
from agentvm.cli.table import Columns, Item, Show, moment, plain
from agentvm.model.account import METRICS
from agentvm.model.money import dollars, to_nano

EXAMPLES = """\b
Examples:
  avm quota list --tenant acme
  avm quota set tokens_per_day --hard 100000 --soft 80000 --user alice
  avm quota set tokens_per_day --hard 20000 --each-user
  avm quota set budget_per_month --hard 25             in dollars
  avm quota delete tokens_per_day --user alice
"""

MONEY = "budget_per_month"
LIMIT_MAX = 2**53 - 1

SOURCES = {"plan": "plan", "tenant": "tenant", "eachUser": "each user", "user": "user"}

COLUMNS: Columns = {
    "METRIC": "metric",
    "USER": lambda item: "each" if item.get("eachUser") else plain(item.get("user")),
    "HARD": lambda item: in_unit(item, "hard"),
    "SOFT": lambda item: in_unit(item, "soft"),
    "USED": lambda item: in_unit(item, "used"),
    "RESETS (UTC)": moment("resetAt"),
    "SOURCE": lambda item: SOURCES.get(str(item.get("source")), ""),
}


METRIC_LIST = f"METRIC is one of {', '.join(METRICS)}.\n\n"

metric_argument = click.argument("metric", type=click.Choice(tuple(METRICS)), metavar="METRIC")


@click.group(epilog=EXAMPLES)
def quota() -> None:
    """Show and set usage limits."""


@quota.command("list")
@user_option("Only limits of this user: id or external id.")
@tenant_command
def list_quotas(api: Api, show: Show, user: str | None) -> None:
    """List all limits and the current usage."""
    _show(api, show, list(api.items("quota.list", user_id=user)))


@quota.command("set", epilog=METRIC_LIST + EXAMPLES)
@metric_argument
@click.option("--hard", metavar="N", help="Limit above which requests are refused; dollars for budget_per_month.")
@click.option("--soft", metavar="N", help="Limit above which a warning is sent.")
@user_option("For this user only: id or external id.")
@click.option("--each-user", is_flag=True, help="Default limit of every user of the tenant.")
@tenant_command
def set_quota(api: Api, show: Show, metric: str, hard: str | None, soft: str | None, user: str | None, each_user: bool) -> None:
    """Limit METRIC for a tenant, one user or each user."""
    if hard is None and soft is None:
        raise click.UsageError("A limit is required: --hard, --soft or both.")
    if user is not None and each_user:
        raise click.UsageError("Use --user or --each-user, not both.")
    limits = {name: read_limit(metric, text, f"--{name}") for name, text in (("hard", hard), ("soft", soft)) if text}
    quota = api.call("quota.put", metric=metric, user_id=user, each_user=each_user or None, **limits)
    if show.as_json:
        show.json(quota)
    else:
        _show(api, show, [quota])


@quota.command("delete", epilog=METRIC_LIST)
@metric_argument
@user_option("Limit of this user: id or external id.")
@click.option("--each-user", is_flag=True, help="Default limit of every user.")
@yes_option
@tenant_command
def delete_quota(api: Api, show: Show, metric: str, user: str | None, each_user: bool, yes: bool) -> None:
    """Delete a limit; the limit of the tenant's plan applies again."""
    confirm(f"Delete the limit {metric}?", yes=yes)
    api.call("quota.delete", metric=metric, user_id=user, each_user=each_user or None)
    show.done(f"The limit {metric} is deleted.")


keep_name(quota, "remove", delete_quota)


def _show(api: Api, show: Show, items: list[Item]) -> None:
    show.items(items if show.as_json else named_users(api, items), COLUMNS, none="No limits found.")


def in_unit(item: Item, field: str) -> str:
    """A limit in its own unit."""
    value = item.get(field)
    return dollars(value) if item.get("metric") == MONEY and isinstance(value, int) else plain(value)


def read_limit(metric: str, text: str, option: str) -> int:
    """A number, optionally with commas or underscores; dollars for a budget."""
    digits = text.strip().replace(",", "").replace("_", "")
    if metric == MONEY:
        digits = digits.removeprefix("$")
    try:
        number = Decimal(digits)
        value = to_nano(number) if metric == MONEY else int(number)
    except (InvalidOperation, ValueError, OverflowError):
        value, number = -1, Decimal(0)
    if not 0 <= value <= LIMIT_MAX or (metric != MONEY and value != number):
        example = "25 or 0.50 (dollars)" if metric == MONEY else "100000"
        raise click.BadParameter(f"{text} is not a valid limit; use for example {example}.", param_hint=f"'{option}'")
    return value
