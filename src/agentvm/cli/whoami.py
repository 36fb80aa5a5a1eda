"""avm whoami — who the server takes you for."""

import click

from agentvm.cli.api import Api, asks_server
from agentvm.cli.table import Show, listed, moment

EXAMPLES = """\b
Examples:
  AVM_KEY=... avm whoami
  avm whoami --key-file ~/.agentvm-key --url https://agents.example.org
"""


@click.command(epilog=EXAMPLES)
@asks_server
def whoami(api: Api, show: Show) -> None:
    """Say who the server takes you for, and what you may do."""
    show.record(
        api.get("auth", "whoami"),
        {
            "Server": lambda _: api.url,
            "Tenant": "tenant",
            "Tenant id": "tenantId",
            "User": "user",
            "User id": "userId",
            "Role": "role",
            "Key": "keyId",
            "Containers": listed("containers", absent="all of the tenant"),
            "Permissions": listed("permissions"),
            "Expires (UTC)": moment("expiresAt"),
            "Authentication": "auth",
        },
    )
