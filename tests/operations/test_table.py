import re
from collections.abc import Iterator

import msgspec
from tests.protocol.fixtures import REQUESTS

from agentvm.model.principal import PERMISSIONS
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


def test_every_operation_is_complete() -> None:
    for operation in OPERATIONS:
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", operation.name)
        assert set(operation.needs) <= set(PERMISSIONS), operation.name
        assert operation.summary.endswith("."), operation.name
        assert operation.command is None or issubclass(operation.reply, Reply), operation.name


def test_names_and_requests_are_unique() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert len(BY_REQUEST) == len(BY_COMMAND)


STORED_AS_JSON = {"config", "definition", "updates", "options", "budget"}
"""Fields that go into no column of the database by themselves."""
CHECKED = {"since", "until", "entries.at"}
"""Times, which are compared with the clock or `operations.times`."""


def unbounded(kind: msgspec.inspect.Type, path: str = "") -> Iterator[str]:
    """The whole numbers of a request that may be larger than any column of the database."""
    match kind:
        case msgspec.inspect.IntType(le=None, lt=None):
            yield path
        case msgspec.inspect.UnionType(types=types):
            for one in types:
                yield from unbounded(one, path)
        case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.VarTupleType(item_type=item):
            yield from unbounded(item, path)
        case msgspec.inspect.StructType(fields=fields) if path not in STORED_AS_JSON:
            for field in fields:
                yield from unbounded(field.type, f"{path}.{field.encode_name}".strip("."))


def test_every_number_of_a_request_fits_into_the_database() -> None:
    found = {
        f"{operation.name} {path}"
        for operation in OPERATIONS
        for path in unbounded(msgspec.inspect.type_info(operation.request))
        if path not in CHECKED
    }
    assert found == set()


def test_a_request_knows_its_command() -> None:
    for name in BY_COMMAND:
        assert command_name(CODEC.decode(name, msgspec.Raw(encode(REQUESTS[name]).encode()))) == name


def test_a_frame_may_hold_the_largest_command() -> None:
    assert max(kind.bound.max_values for kind in COMMANDS.values()) < FRAME_BOUND.max_values
    assert max(kind.bound.max_depth for kind in COMMANDS.values()) < FRAME_BOUND.max_depth
    assert max(kind.bound.max_bytes for kind in COMMANDS.values()) < FRAME_BOUND.max_bytes
