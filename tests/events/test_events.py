import re

from agentvm.events import CATALOGUE
from agentvm.events.message import MessageEvent, SilentMessageEvent

# The events of the 1.x protocol that reach clients, with what envelope they carry there.
ENVELOPES = {
    "container_created": ("container", "lifecycle", "notification"),
    "agent_registered": ("container", "lifecycle", "notification"),
    "agent_unregistered": ("container", "lifecycle", "notification"),
    "session_destroyed": ("session", "lifecycle", "notification"),
    "message_persisted": ("session", "persist", "result"),
    "interrupted": ("agent", "lifecycle", "notification"),
    "system_error": ("command", "error", "notification"),
    "message_start": ("agent", "stream", "notification"),
    "text_content_block_start": ("agent", "state", "notification"),
    "text_content_block_stop": ("agent", "state", "notification"),
    "text_delta": ("agent", "stream", "notification"),
    "tool_use_start": ("agent", "stream", "notification"),
    "input_json_delta": ("agent", "stream", "notification"),
    "tool_use_stop": ("agent", "stream", "notification"),
    "tool_result": ("agent", "stream", "notification"),
    "message_stop": ("agent", "stream", "notification"),
    "error_received": ("agent", "state", "notification"),
    "conversation_start": ("agent", "state", "notification"),
    "conversation_responding": ("agent", "state", "notification"),
    "conversation_end": ("agent", "state", "notification"),
    "tool_planned": ("agent", "state", "notification"),
    "tool_executing": ("agent", "state", "notification"),
    "error_occurred": ("agent", "state", "notification"),
    "assistant_message": ("agent", "message", "notification"),
    "tool_call_message": ("agent", "message", "notification"),
    "tool_result_message": ("agent", "message", "notification"),
    "error_message": ("agent", "message", "notification"),
}


def test_every_event_of_1x_is_in_the_catalogue_with_1xs_envelope() -> None:
    ours = {name: (kind.source, kind.category, kind.intent) for name, kind in CATALOGUE.items()}
    assert {name: ours.get(name) for name in ENVELOPES} == ENVELOPES


def test_every_kind_is_listed_under_its_own_type() -> None:
    for name, kind in CATALOGUE.items():
        assert kind.type == name
        assert re.fullmatch(r"[a-z_]+", name)
        assert vars(kind).get("type") == name, f"{kind.__name__} inherits its type"


def test_only_the_silent_message_is_kept_from_clients() -> None:
    assert SilentMessageEvent not in CATALOGUE.values()
    told = {kind for kind in CATALOGUE.values() if issubclass(kind, MessageEvent)}
    assert set(MessageEvent.__subclasses__()) - told == {SilentMessageEvent}
