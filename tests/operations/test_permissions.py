import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.protocol.fixtures import REQUESTS

from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import EVERYTHING, PERMISSIONS, Principal
from agentvm.operations.table import BY_COMMAND, COMMANDS

NEEDS = {name: row.needs[0] for name, row in BY_COMMAND.items()}


def test_every_command_says_what_it_needs() -> None:
    assert NEEDS.keys() == COMMANDS.keys()
    assert set(NEEDS.values()) <= set(PERMISSIONS)


@pytest.mark.parametrize("command", NEEDS)
async def test_a_command_is_refused_to_those_who_lack_what_it_needs(command: str) -> None:
    async with open_desk() as desk:
        weak = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING - {NEEDS[command]})
        poor = Desk(desk.vm, desk.vm.attach(weak))
        reply = await poor.ask(command, **REQUESTS[command])
        assert reply["errorCode"] == "permission_denied"
        assert NEEDS[command] in reply["error"]
        assert (await desk.vm.attach().store.list_containers()) == ()


@pytest.mark.parametrize("command", NEEDS)
async def test_and_not_to_those_who_have_only_that(command: str) -> None:
    async with open_desk() as desk:
        just = Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({NEEDS[command]}))
        reply = await Desk(desk.vm, desk.vm.attach(just)).ask(command, **REQUESTS[command])
        assert reply.get("errorCode") != "permission_denied"
