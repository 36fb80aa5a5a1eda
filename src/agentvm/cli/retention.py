"""avm retention — how long what was said is kept, and what would be deleted."""

from collections.abc import Callable

import click

from agentvm.cli.api import Api, asks_server, tenant_option
from agentvm.cli.table import Columns, Item, Show

EXAMPLES = """\b
Examples:
  avm retention                                        what is in force, and what it would delete now
  avm retention --session-days 90                      what that would delete; nothing is set
  avm config set retention.sessionDays=90 --tenant acme
"""

FOREVER = 36_500


def _days(name: str, otherwise: str = "for ever") -> Callable[[Item], str]:
    def shown(item: Item) -> str:
        days = item.get(name)
        return otherwise if days is None else "for ever" if days >= FOREVER else f"{days:,} days"

    return shown


COLUMNS: Columns = {
    "Tenant": "tenantId",
    "Sessions": _days("sessionDays"),
    "Archived sessions": _days("archivedDays", "as the others"),
    "Messages taken back": _days("rewoundDays"),
    "Turns": _days("messageDays"),
    "Would delete sessions": lambda item: f"{item['sessions']:,}",
    "Would empty sessions": lambda item: f"{item['emptied']:,}",
    "Would delete messages": lambda item: f"{item['messages']:,} ({item['bytes']:,} bytes)",
}
days = click.IntRange(min=1, max=FOREVER)


@click.command(epilog=EXAMPLES)
@click.option("--session-days", type=days, metavar="DAYS", help="What if idle sessions were kept so long?")
@click.option("--archived-days", type=days, metavar="DAYS", help="What if archived ones were?")
@click.option("--rewound-days", type=days, metavar="DAYS", help="What if messages that were taken back were?")
@click.option("--message-days", type=days, metavar="DAYS", help="What if the turns of sessions that go on were?")
@tenant_option
@asks_server
def retention(
    api: Api,
    show: Show,
    session_days: int | None,
    archived_days: int | None,
    rewound_days: int | None,
    message_days: int | None,
) -> None:
    """See how long what was said is kept, and what would go.

    It is looked at every hour. Days that are given are only tried; `avm config set retention.…` sets them.
    """
    tried = {
        "sessionDays": session_days,
        "archivedDays": archived_days,
        "rewoundDays": rewound_days,
        "messageDays": message_days,
    }
    found = api.get("retention", **tried)
    if show.as_json:
        show.json(found)
        return
    policy = {**found["policy"], **{name: value for name, value in tried.items() if value is not None}}
    show.record({"tenantId": found["tenantId"], **policy, **found["due"]}, COLUMNS)
