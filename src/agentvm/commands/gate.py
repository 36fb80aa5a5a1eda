"""Gate — what each command needs to be allowed, in one table, and the one place where it is checked.

Whose things a command may touch is not checked here but cannot be asked otherwise: see `agentvm.tenants.scoped_store`.
"""

from agentvm.model.principal import Principal
from agentvm.protocol.commands import Command
from agentvm.protocol.requests import Reply

NEEDS: dict[str, str] = {
    "resource_register": "resources:write",
    "resource_publish": "resources:write",
    "resource_list": "resources:read",
    "resource_resolve": "resources:read",
}
"""By the name of the command. Its keys are those of the command table: a test says so."""


def check(principal: Principal, command: Command[Reply]) -> None:
    principal.require(NEEDS[command.name])
