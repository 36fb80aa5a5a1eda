"""Secret grants — which tool may use which secret of a tenant, how, and to which hosts it may go."""

from typing import Literal

import msgspec

from agentvm.model.base import Record

SecretUse = Literal["header", "query", "env"]
"""How a tool uses a secret: in a header or in the query of a request, or as a variable of the code that it runs."""

STDIO = "stdio:"
"""Begins the name of an MCP server of the setting `tools.mcpServers`, which can be granted secrets as a tool can."""


class SecretGrant(Record):
    """Permission of a tool to use a secret. Without it the name of a secret in a tool has no effect."""

    secret: str
    tool: str
    """URI of the tool without a version, or `stdio:<id>` for an MCP server of the operator."""
    grantee: str
    """The id of the resource, or `stdio:<id>`: the name of a tool can pass to another owner, its id cannot."""
    use: SecretUse = msgspec.field(name="as")
    hosts: tuple[str, ...] = ()
    """The hosts that the value may go to; for `env` the only hosts that the code may reach."""
    granted_by: str
    granted_at: int
