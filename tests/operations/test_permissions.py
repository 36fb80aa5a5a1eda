from tests.operations.fixtures import Desk, open_desk
from tests.protocol.fixtures import REQUESTS

from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import EVERYTHING, PERMISSIONS, Principal
from agentvm.operations.table import BY_COMMAND, COMMANDS

NEEDS = {name: row.needs[0] for name, row in BY_COMMAND.items()}


def test_every_command_says_what_it_needs() -> None:
    assert NEEDS.keys() == COMMANDS.keys()
    assert set(NEEDS.values()) <= set(PERMISSIONS)


async def test_a_command_is_refused_to_those_who_lack_what_it_needs() -> None:
    async with open_desk() as desk:
        for command, permission in NEEDS.items():
            weak = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING - {permission})
            poor = Desk(desk.vm, desk.vm.attach(weak))
            reply = await poor.ask(command, **REQUESTS[command])
            assert reply["errorCode"] == "permission_denied", command
            assert permission in reply["error"], command
            assert (await desk.vm.attach().store.list_containers()) == (), command


async def test_and_not_to_those_who_have_only_that() -> None:
    async with open_desk() as desk:
        for command, permission in NEEDS.items():
            just = Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({permission}))
            reply = await Desk(desk.vm, desk.vm.attach(just)).ask(command, **REQUESTS[command])
            assert reply.get("errorCode") != "permission_denied", command
