"""avm whoami — who the server takes you for."""

from contextlib import suppress

import click

from agentvm.cli.api import Api, RequestFailed, asks_server
from agentvm.cli.table import Item, Show, listed, moment

EXAMPLES = """\b
Examples:
  AVM_KEY=... avm whoami
  avm whoami --key-file ~/.agentvm-key --url https://agents.example.org
"""


@click.command(epilog=EXAMPLES)
@asks_server
def whoami(api: Api, show: Show) -> None:
    """Say who the server takes you for, and what you may do."""
    who = api.get("auth", "whoami")
    show.record(
        who if show.as_json else {**who, "key": _key_name(api, who)},
        {
            "Server": lambda _: api.url,
            "Tenant": "tenant",
            "Tenant id": "tenantId",
            "User": "user",
            "User id": "userId",
            "Role": "role",
            "Key": "key",
            "Containers": listed("containers", absent="all of the tenant"),
            "Permissions": listed("permissions"),
            "Expires (UTC)": moment("expiresAt"),
            "Authentication": "auth",
        },
    )


def _key_name(api: Api, who: Item) -> str | None:
    """The key's id with its name, for those who may see it."""
    key_id = who.get("keyId")
    if not isinstance(key_id, str):
        return None
    with suppress(RequestFailed):
        return f"{key_id} ({api.get('auth', 'keys', key_id).get('name')})"
    return key_id
