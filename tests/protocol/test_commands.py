import msgspec
import pytest
from tests.protocol.fixtures import REQUESTS

from agentvm.operations.table import CODEC, COMMANDS
from agentvm.protocol.codec import encode
from agentvm.protocol.requests import Reply

# What a failed command says besides its error: as much as 1.x clients read without checking.
REFUSALS: dict[str, dict[str, object]] = {
    "container_create": {"containerId": "c1"},
    "container_get": {"exists": False},
    "container_list": {"containerIds": []},
    "container_delete": {"containerId": "c1", "deleted": False},
    "image_get": {"record": None},
    "agent_get": {"exists": False},
    "agent_list": {"agents": []},
    "agent_destroy_all": {"containerId": "c1"},
    "image_run": {"imageId": "img_1", "agentId": "", "reused": False},
    "image_stop": {"imageId": "img_1"},
    "image_list": {"records": []},
    "image_delete": {"imageId": "img_1"},
    "image_messages": {"imageId": "img_1", "messages": []},
    "agent_destroy": {"agentId": "agent_1", "success": False},
    "agent_interrupt": {"imageId": "img_1", "agentId": "agent_1"},
    "message_send": {"imageId": "img_1", "agentId": "agent_1"},
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_refusal_says_what_1x_says(name: str) -> None:
    command = CODEC.decode(name, msgspec.Raw(encode(REQUESTS[name]).encode()))
    refusal = msgspec.structs.replace(command.refused(), error="no", error_code="refused")
    assert isinstance(refusal, Reply)
    said = msgspec.json.decode(encode(refusal))
    assert said == {"error": "no", "errorCode": "refused", **REFUSALS.get(name, {})}


def test_a_refused_message_without_an_agent_has_an_empty_agent_id() -> None:
    command = CODEC.decode("message_send", msgspec.Raw(b'{"imageId":"img_1","content":"hi"}'))
    assert msgspec.to_builtins(command.refused()) == {"imageId": "img_1", "agentId": ""}
