"""avm retention — how long sessions are kept, and which would be deleted now."""

from collections.abc import Callable

import click

from agentvm.cli.api import Api, tenant_command
from agentvm.cli.table import Columns, Item, Show

EXAMPLES = """\b
Examples:
  avm retention                                        the current policy, and the sessions it would delete now
  avm retention --session-days 90                      what another policy would delete (dry run)
  avm config set retention.sessionDays=90 --tenant acme
"""

UNLIMITED_DAYS = 36_500


def _days(name: str, unset: str = "unlimited") -> Callable[[Item], str]:
    def text(item: Item) -> str:
        days = item.get(name)
        return unset if days is None else "unlimited" if days >= UNLIMITED_DAYS else f"{days:,} days"

    return text


COLUMNS: Columns = {
    "Tenant": "tenantId",
    "Sessions": _days("sessionDays"),
    "Archived sessions": _days("archivedDays", "like other sessions"),
    "Stateless sessions": _days("statelessDays"),
    "Rewound messages": _days("rewoundDays"),
    "Turns": _days("messageDays"),
    "Would delete sessions": lambda item: f"{item['sessions']:,}",
    "Would empty sessions": lambda item: f"{item['emptied']:,}",
    "Would delete messages": lambda item: f"{item['messages']:,} ({item['bytes']:,} bytes)",
}
days = click.IntRange(min=1, max=UNLIMITED_DAYS)


@click.command(epilog=EXAMPLES)
@click.option("--session-days", type=days, metavar="DAYS", help="Try this limit for idle sessions.")
@click.option("--archived-days", type=days, metavar="DAYS", help="Try this limit for archived sessions.")
@click.option("--stateless-days", type=days, metavar="DAYS", help="Try this limit for sessions of stateless clients.")
@click.option("--rewound-days", type=days, metavar="DAYS", help="Try this limit for rewound messages.")
@click.option("--message-days", type=days, metavar="DAYS", help="Try this limit for turns of active sessions.")
@tenant_command
def retention(api: Api, show: Show, /, **tried: int | None) -> None:
    """Show the retention policy and the sessions it would delete.

    The policy is applied every hour. The options are a dry run; `avm config set retention.…` changes the policy.
    """
    report = api.call("retention.show", **tried)
    if show.as_json:
        show.json(report)
        return
    limits = {f"{name.removesuffix('_days')}Days": value for name, value in tried.items() if value is not None}
    show.record({"tenantId": report["tenantId"], **report["policy"], **limits, **report["due"]}, COLUMNS)
