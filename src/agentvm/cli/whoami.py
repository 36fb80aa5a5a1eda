"""avm whoami — the identity and permissions of the API key."""

from contextlib import suppress

import click

from agentvm.cli.api import Api, RequestFailed, server_command
from agentvm.cli.table import Item, Show, listed, moment

EXAMPLES = """\b
Examples:
  AVM_KEY=... avm whoami
  avm whoami --key-file ~/.agentvm-key --url https://agents.example.org
"""


@click.command(epilog=EXAMPLES)
@server_command
def whoami(api: Api, show: Show) -> None:
    """Show which identity and permissions your key has."""
    identity = api.call("auth.whoami")
    show.record(
        identity if show.as_json else {**identity, "key": _key_name(api, identity)},
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


def _key_name(api: Api, identity: Item) -> str | None:
    """The id of the key, with its name if the key may read it."""
    key_id = identity.get("keyId")
    if not isinstance(key_id, str):
        return None
    with suppress(RequestFailed):
        return f"{key_id} ({api.call('key.get', key_id).get('name')})"
    return key_id
