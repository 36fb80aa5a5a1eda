"""avm usage — what was used, what it costs, and whether the provider's bill agrees."""

from collections.abc import Iterator
from typing import BinaryIO

import click
import msgspec

from agentvm.cli.additions import added_csv
from agentvm.cli.api import Api, RequestFailed, asks_server, tenant_option
from agentvm.cli.names import USER, names_of
from agentvm.cli.table import Column, Item, Show, money, plain, table
from agentvm.cli.when import past
from agentvm.errors import InvalidInput
from agentvm.model.ledger import LedgerEntry
from agentvm.tenants.exports import read_export
from agentvm.tenants.reconcile import ReconcileReport, days_of, reconcile

EXAMPLES = """\b
Examples:
  avm usage                                            the sum of everything
  avm usage --by user,model --since 30d
  avm usage --by day --since 2026-11-01 --until 2026-12-01 --csv > november.csv
  avm usage reconcile claude_api_tokens.csv            does the provider's bill agree?
"""

DIMENSIONS: dict[str, str] = {
    "hour": "hour",
    "day": "day",
    "month": "month",
    "user": "userId",
    "container": "containerId",
    "image": "imageId",
    "driver": "driver",
    "model": "model",
}
SUMS: dict[str, Column] = {
    "CALLS": "calls",
    "INPUT": "inputTokens",
    "OUTPUT": "outputTokens",
    "CACHE READ": "cacheReadTokens",
    "CACHE WRITE": "cacheWriteTokens",
    "COST": money("cost"),
    "PRICE": money("price"),
}


def check_dimensions(ctx: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    by = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if wrong := [name for name in by if name not in DIMENSIONS]:
        raise click.BadParameter(f"{wrong[0]!r} is nothing to group by; choose among {', '.join(DIMENSIONS)}.")
    return by


@click.group(epilog=EXAMPLES, invoke_without_command=True)
@click.option("--by", default="", metavar="LIST", callback=check_dimensions, help=f"Group by some of {','.join(DIMENSIONS)}.")
@click.option("--since", type=past, metavar="TIME", help="From then on: 30d, 2026-11-01.")
@click.option("--until", type=past, metavar="TIME", help="Before then.")
@click.option("--csv", "as_csv", is_flag=True, help="Answer in CSV; money in nano-USD, and in dollars beside it.")
@tenant_option
@asks_server
def usage(api: Api, show: Show, by: tuple[str, ...], since: int | None, until: int | None, as_csv: bool) -> None:
    """See what was used and what it costs."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    if as_csv and show.as_json:
        raise click.UsageError("Give --csv or --json, not both.")
    names = names_of(api, USER) if "user" in by else {}
    if as_csv:
        text = api.ask("GET", ("usage",), {"by": ",".join(by), "since": since, "until": until, "format": "csv"})
        click.echo(added_csv(text.decode(), names), nl=False)
        return
    items = api.get("usage", by=",".join(by), since=since, until=until).get("items", [])
    columns: dict[str, Column] = {name.upper(): DIMENSIONS[name] for name in by}
    if names:
        items = [{**item, "user": names.get(item.get("userId"), item.get("userId"))} for item in items]
        columns["USER"] = "user"
    columns |= SUMS
    if any("margin" in item for item in items):
        columns["MARGIN"] = money("margin")
    show.items(items, columns, none="Nothing was used.")
    _say_what_is_uncertain(items, show)


def _say_what_is_uncertain(items: list[Item], show: Show) -> None:
    if show.as_json:
        return
    for member, what in (("estimatedCalls", "estimated"), ("unpricedCalls", "without a known price")):
        if count := sum(int(item.get(member, 0)) for item in items):
            click.echo(f"{count:,} of the calls are {what}.", err=True)


@usage.command("reconcile", epilog=EXAMPLES)
@click.argument("file", type=click.File("rb"))
@click.option("--driver", help="Whose bill it is, such as anthropic; by default the one that has its models.")
@tenant_option
@asks_server
def reconcile_usage(api: Api, show: Show, file: BinaryIO, driver: str | None) -> int:
    """Compare the ledger with a provider's usage export (CSV or JSON).

    Every difference is explained, if it can be. The operator compares the ledgers of all tenants, unless --tenant names one:
    a provider's bill is for all of them. The exit code is 0 when everything is explained, else 1.
    """
    try:
        exported = read_export(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput("The export is no text in UTF-8; save it as such") from None
    since, until = days_of(exported)
    report = reconcile(exported, _entries(api, since, until), driver=driver)
    if show.as_json:
        show.json({**msgspec.to_builtins(report), "explained": report.explained})
    else:
        _show_report(report)
    return 0 if report.explained else 1


def _entries(api: Api, since: int, until: int) -> Iterator[LedgerEntry]:
    for tenant in _tenants(api):
        for item in api.pages("usage", "entries", since=since, until=until, tenant=tenant):
            try:
                yield msgspec.convert(item, LedgerEntry)
            except msgspec.ValidationError as error:
                raise RequestFailed(f"The server's ledger has another form than this avm knows: {error}") from None


def _tenants(api: Api) -> list[str | None]:
    """None stands for one's own."""
    if api.tenant is not None:
        return [api.tenant]
    if "system:admin" not in api.get("auth", "whoami").get("permissions", ()):
        return [None]
    return [str(item["tenantId"]) for item in api.pages("tenants")]


def _show_report(report: ReconcileReport) -> None:
    rows = [
        [
            group.day,
            group.model,
            group.provider.total,
            group.ledger.total,
            group.ledger.total - group.provider.total,
            group.verdict if group.explained else f"{group.verdict}: NOT EXPLAINED",
        ]
        for group in report.groups
    ]
    totals = ["total", "", report.provider.total, report.ledger.total, report.ledger.total - report.provider.total, ""]
    click.echo(table(["DAY", "MODEL", "PROVIDER", "LEDGER", "DIFFERENCE", ""], [*rows, totals]))
    for group in report.groups:
        for reason in group.reasons:
            click.echo(f"{group.day} {plain(group.model)}: {reason}.")
    for driver, calls in report.left_out.items():
        click.echo(f"Left out: {calls:,} calls of {plain(driver)}, which are not on this bill.")
    open_ones = sum(not group.explained for group in report.groups)
    click.echo("Everything is explained." if not open_ones else f"{open_ones} of {len(report.groups)} are not explained.")
