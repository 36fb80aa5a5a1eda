"""avm usage — token usage and cost, and their reconciliation with a provider's bill."""

from collections.abc import Iterator
from typing import BinaryIO

import click
import msgspec

from agentvm.cli.api import Api, RequestFailed, tenant_command
from agentvm.cli.derived_fields import with_derived_columns
from agentvm.cli.names import USER, names_of
from agentvm.cli.options import since_option, until_option
from agentvm.cli.table import Column, Item, Show, counted, money, plain, table
from agentvm.errors import InvalidInput
from agentvm.model.ledger import LedgerEntry
from agentvm.operations.usage import DIMENSIONS
from agentvm.tenants.exports import read_export
from agentvm.tenants.reconcile import ReconcileReport, days_of, reconcile

EXAMPLES = """\b
Examples:
  avm usage                                            the total
  avm usage --by user,model --since 30d
  avm usage --by day --since 2026-11-01 --until 2026-12-01 --csv > november.csv
  avm usage reconcile claude_api_tokens.csv            compare with the provider's bill
"""

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
        raise click.BadParameter(f"{wrong[0]!r} is not a valid dimension; choose from {', '.join(DIMENSIONS)}.")
    return by


@click.group(epilog=EXAMPLES, invoke_without_command=True)
@click.option("--by", default="", metavar="LIST", callback=check_dimensions, help=f"Group by: {','.join(DIMENSIONS)}.")
@since_option
@until_option
@click.option("--csv", "as_csv", is_flag=True, help="Output CSV, with money in nano-USD and in dollars.")
@tenant_command
def usage(api: Api, show: Show, by: tuple[str, ...], since: int | None, until: int | None, as_csv: bool) -> None:
    """Show token usage and cost."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    if as_csv and show.as_json:
        raise click.UsageError("Use --csv or --json, not both.")
    names = names_of(api, USER) if "user" in by else {}
    if as_csv:
        text = api.call_bytes("usage.report", by=",".join(by), since=since, until=until, format="csv")
        click.echo(with_derived_columns(text.decode(), names), nl=False)
        return
    items = list(api.items("usage.report", by=",".join(by), since=since, until=until))
    columns: dict[str, Column] = {name.upper(): DIMENSIONS[name] for name in by}
    if names:
        items = [{**item, "user": names.get(item.get("userId"), item.get("userId"))} for item in items]
        columns["USER"] = "user"
    columns |= SUMS
    if any("margin" in item for item in items):
        columns["MARGIN"] = money("margin")
    show.items(items, columns, none="No usage found.")
    _print_uncertain(items, show)


def _print_uncertain(items: list[Item], show: Show) -> None:
    if show.as_json:
        return
    for field, state in (("estimatedCalls", "estimated"), ("unpricedCalls", "without a known price")):
        if count := sum(int(item.get(field, 0)) for item in items):
            click.echo(f"{counted(count, 'call')} {state}.", err=True)


@usage.command("reconcile", epilog=EXAMPLES)
@click.argument("file", type=click.File("rb"))
@click.option("--driver", help="Driver of the bill, such as anthropic (default: by its models).")
@tenant_command
def reconcile_usage(api: Api, show: Show, file: BinaryIO, driver: str | None) -> int:
    """Compare the ledger with a provider's usage export.

    The export is CSV or JSON. Differences are explained where possible. An operator compares the ledgers of all tenants,
    since the bill covers all of them; --tenant selects one. The exit code is 0 when every difference is explained, else 1.
    """
    try:
        exported = read_export(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidInput("The export is not UTF-8 text; save it as UTF-8") from None
    since, until = days_of(exported)
    report = reconcile(exported, _entries(api, since, until), driver=driver)
    if show.as_json:
        show.json({**msgspec.to_builtins(report), "explained": report.explained})
    else:
        _show_report(report)
    return 0 if report.explained else 1


def _entries(api: Api, since: int, until: int) -> Iterator[LedgerEntry]:
    for tenant in _tenants(api):
        api.tenant = tenant
        for item in api.items("usage.entries", since=since, until=until):
            try:
                yield msgspec.convert(item, LedgerEntry)
            except msgspec.ValidationError as error:
                raise RequestFailed(
                    f"The server's ledger has an unknown format: {error}. Use the avm version of the server."
                ) from None


def _tenants(api: Api) -> list[str | None]:
    """Tenant ids; None stands for the caller's own tenant."""
    if api.tenant is not None:
        return [api.tenant]
    if "system:admin" not in api.call("auth.whoami").get("permissions", ()):
        return [None]
    return [str(item["tenantId"]) for item in api.items("tenant.list")]


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
        click.echo(f"Not on this bill: {counted(calls, 'call')} of {plain(driver)}.")
    unexplained = sum(not group.explained for group in report.groups)
    verdict = f"{unexplained} of {counted(len(report.groups), 'group')} not explained."
    click.echo(verdict if unexplained else "Every difference is explained.")
