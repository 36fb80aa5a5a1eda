"""avm quota — how much a tenant or one of its users may use."""

from decimal import Decimal, InvalidOperation

import click

from agentvm.cli.api import Api, asks_server, confirm, tenant_option, yes_option
from agentvm.cli.names import USER, names_of
from agentvm.cli.table import Columns, Item, Show, moment, plain
from agentvm.cli.user import find_user
from agentvm.model.account import METRICS
from agentvm.model.money import dollars, to_nano

EXAMPLES = """\b
Examples:
  avm quota list --tenant acme
  avm quota set tokens_per_day --hard 100000 --soft 80000 --user alice
  avm quota set tokens_per_day --hard 20000 --each-user
  avm quota set budget_per_month --hard 25             in dollars
  avm quota remove tokens_per_day --user alice
"""

MONEY = "budget_per_month"
MOST = 2**53 - 1


SOURCES = {"plan": "plan", "tenant": "tenant", "eachUser": "each user", "user": "user"}

COLUMNS: Columns = {
    "METRIC": "metric",
    "USER": lambda item: "each" if item.get("eachUser") else plain(item.get("user")),
    "HARD": lambda item: shown(item, "hard"),
    "SOFT": lambda item: shown(item, "soft"),
    "USED": lambda item: shown(item, "used"),
    "RENEWED (UTC)": moment("resetAt"),
    "SET BY": lambda item: SOURCES.get(str(item.get("source")), ""),
}


@click.group(epilog=EXAMPLES)
def quota() -> None:
    """See and set how much may be used."""


@quota.command("list")
@click.option("--user", help="Only limits of this user: id or external id.")
@tenant_option
@asks_server
def list_quotas(api: Api, show: Show, user: str | None) -> None:
    """List what can be limited, the limits, and what is used of them."""
    user_id = None if user is None else str(find_user(api, user)["userId"])
    items = api.get("quotas", userId=user_id).get("items", [])
    show.items(items if show.as_json else _with_names(api, items), COLUMNS, none="There are no limits.")


@quota.command("set", epilog=EXAMPLES)
@click.argument("metric", type=click.Choice(tuple(METRICS)))
@click.option("--hard", metavar="N", help="What is beyond is refused; dollars for budget_per_month.")
@click.option("--soft", metavar="N", help="What is beyond is warned of.")
@click.option("--user", help="For this user alone: id or external id.")
@click.option("--each-user", is_flag=True, help="For each user of the tenant who has no other limit.")
@tenant_option
@asks_server
def set_quota(api: Api, show: Show, metric: str, hard: str | None, soft: str | None, user: str | None, each_user: bool) -> None:
    """Limit METRIC for a tenant, for one of its users, or for each of them."""
    if hard is None and soft is None:
        raise click.UsageError("Give a limit: --hard, --soft or both.")
    if user is not None and each_user:
        raise click.UsageError("A limit is for one user or for each: give --user or --each-user.")
    body: Item = {"metric": metric}
    for name, text in (("hard", hard), ("soft", soft)):
        if text is not None:
            body[name] = read_limit(metric, text, f"--{name}")
    if user is not None:
        body["userId"] = find_user(api, user)["userId"]
    if each_user:
        body["eachUser"] = True
    answer = api.put("quotas", body=body)
    if show.as_json:
        show.json(answer)
    else:
        show.items(_with_names(api, [answer]), COLUMNS, none="")


@quota.command("remove")
@click.argument("metric", type=click.Choice(tuple(METRICS)))
@click.option("--user", help="The limit of this user: id or external id.")
@click.option("--each-user", is_flag=True, help="The limit of each user.")
@yes_option
@tenant_option
@asks_server
def remove_quota(api: Api, show: Show, metric: str, user: str | None, each_user: bool, yes: bool) -> None:
    """Take a limit away; then the one of the tenant's plan holds, if it has one."""
    user_id = None if user is None else str(find_user(api, user)["userId"])
    confirm(f"Remove the limit {metric}?", yes=yes)
    api.delete("quotas", metric=metric, userId=user_id, eachUser="true" if each_user else None)
    show.done(f"The limit {metric} is removed.")


def _with_names(api: Api, items: list[Item]) -> list[Item]:
    names = names_of(api, USER) if any(item.get("userId") for item in items) else {}
    return [{**item, "user": names.get(item.get("userId"), item.get("userId"))} for item in items]


def shown(item: Item, member: str) -> str:
    """A limit in its own unit."""
    value = item.get(member)
    return dollars(value) if item.get("metric") == MONEY and isinstance(value, int) else plain(value)


def read_limit(metric: str, text: str, option: str) -> int:
    """A number, with commas or underscores if you like; for money it is dollars."""
    plainer = text.strip().replace(",", "").replace("_", "")
    if metric == MONEY:
        plainer = plainer.removeprefix("$")
    try:
        number = Decimal(plainer)
        value = to_nano(number) if metric == MONEY else int(number)
    except (InvalidOperation, ValueError, OverflowError):
        value, number = -1, Decimal(0)
    if not 0 <= value <= MOST or (metric != MONEY and value != number):
        example = "25 or 0.50 (dollars)" if metric == MONEY else "100000"
        raise click.BadParameter(f"{text!r} is no limit; write it like {example}.", param_hint=f"'{option}'")
    return value
