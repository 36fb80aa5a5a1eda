import re

import msgspec
import pytest
from tests.protocol.fixtures import REQUESTS

from agentvm.model.principal import PERMISSIONS
from agentvm.operations.operation import Operation
from agentvm.operations.table import ADDITIVE, BY_COMMAND, BY_REQUEST, CODEC, COMMANDS, OPERATIONS, command_name
from agentvm.protocol.codec import FRAME_BOUND, encode
from agentvm.protocol.requests import Reply

# The seventeen of AgentX 1.x.
OF_1X = {
    "container_create", "container_get", "container_list",
    "agent_get", "agent_list", "agent_destroy", "agent_destroy_all", "agent_interrupt",
    "message_send",
    "image_create", "image_run", "image_stop", "image_update", "image_list", "image_get", "image_delete", "image_messages",
}  # fmt: skip


def test_the_table_has_every_command_of_1x() -> None:
    assert len(OF_1X) == 17
    assert OF_1X <= set(COMMANDS)
    assert not OF_1X & ADDITIVE


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: str(operation.name))
def test_an_operation_is_complete(operation: Operation) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", operation.name)
    assert set(operation.needs) <= set(PERMISSIONS)
    assert operation.summary.endswith(".")
    if operation.command is not None:
        assert issubclass(operation.reply, Reply)


def test_names_and_requests_are_unique() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert len(BY_REQUEST) == len(BY_COMMAND)


def test_a_request_knows_its_command() -> None:
    for name in BY_COMMAND:
        assert command_name(CODEC.decode(name, msgspec.Raw(encode(REQUESTS[name]).encode()))) == name


def test_a_frame_may_hold_the_largest_command() -> None:
    assert max(kind.bound.max_values for kind in COMMANDS.values()) < FRAME_BOUND.max_values
    assert max(kind.bound.max_depth for kind in COMMANDS.values()) < FRAME_BOUND.max_depth
    assert max(kind.bound.max_bytes for kind in COMMANDS.values()) < FRAME_BOUND.max_bytes
