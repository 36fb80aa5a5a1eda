import re
from dataclasses import fields

import pytest
from tests.protocol.fixtures import REQUESTS

from agentvm.commands.dispatch import TABLE
from agentvm.protocol import commands
from agentvm.protocol.commands import Command, Reply
from agentvm.protocol.table import COMMANDS, CommandTable

# The seventeen of AgentX 1.x.
OF_1X = {
    "container_create", "container_get", "container_list",
    "agent_get", "agent_list", "agent_destroy", "agent_destroy_all", "agent_interrupt",
    "message_send",
    "image_create", "image_run", "image_stop", "image_update", "image_list", "image_get", "image_delete", "image_messages",
}  # fmt: skip


def test_the_table_has_every_command_of_1x() -> None:
    assert len(OF_1X) == 17
    assert OF_1X - set(COMMANDS) == set()


def test_no_command_is_declared_outside_the_table() -> None:
    declared = {kind for kind in vars(commands).values() if isinstance(kind, type) and issubclass(kind, Command)}
    assert declared - {Command} == set(COMMANDS.values())
    assert set(COMMANDS) == {field.name for field in fields(CommandTable)} == set(REQUESTS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_its_name_its_reply_and_its_implementation(name: str) -> None:
    kind = COMMANDS[name]
    assert kind.name == name
    assert issubclass(kind.reply_type, Reply)
    assert kind.__name__.lower() == re.sub("_", "", name)
    assert callable(getattr(TABLE, name))
