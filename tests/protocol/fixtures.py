"""One well-formed request per command, and texts no JSON library likes."""

import msgspec
from msgspec.structs import fields

from agentvm.events.base import Event, EventData, EventScope
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId, TenantId
from agentvm.operations.table import COMMANDS

HARD_TEXTS = (
    "",
    "a",
    "emoji 👩‍👩‍👧 🇨🇳",
    "line\u2028para\u2029",
    "nul\x00",
    "\x1b[2J\r\n\t",
    '"quoted\\"',
    "</script>",
    "\ufeff\ufffd\uffff",
)

IDS = {
    "containerId": "c1",
    "imageId": "img_1",
    "sessionId": "sess_1",
    "agentId": "agent_1",
    "messageId": "msg_1",
    "scheduleId": "sch_1",
    "triggerId": "trg_1",
}


def ids_of(kind: type[msgspec.Struct]) -> dict[str, object]:
    """The ids that a request requires."""
    return {field.encode_name: IDS[field.encode_name] for field in fields(kind) if field.required and field.encode_name in IDS}


# Commands whose request has more than the ids that it requires.
_REQUESTS: dict[str, dict[str, object]] = {
    "attachment_list": {"containerId": "c1"},
    "attachment_get": {"containerId": "c1", "attachment": f"attachment:sha256:{'0' * 64}"},
    "memory_add": {"containerId": "c1", "text": "Likes tea"},
    "memory_put": {"containerId": "c1", "memoryId": "mem_1", "text": "Likes tea"},
    "memory_delete": {"containerId": "c1", "memoryId": "mem_1"},
    "file_get": {"sessionId": "sess_1", "path": "notes.txt"},
    "file_versions": {"sessionId": "sess_1", "path": "notes.txt"},
    "file_read": {"sessionId": "sess_1", "path": "notes.txt"},
    "file_write": {"sessionId": "sess_1", "path": "notes.txt", "data": "aGk="},
    "file_delete": {"sessionId": "sess_1", "path": "notes.txt"},
    "definition_get": {"definitionName": "default"},
    "definition_register": {"definition": {"name": "poet", "systemPrompt": "rhyme", "tools": []}},
    "image_create": {"containerId": "c1", "config": {"name": "Chat", "mcpServers": {}}},
    "image_build": {"containerId": "c1", "definition": "default", "config": {"model": "scripted"}},
    "image_open": {"agent": "default", "containerId": "c1"},
    "image_update": {"imageId": "img_1", "updates": {"name": "Renamed"}},
    "image_list": {"containerId": "c1"},
    "session_create": {"imageId": "img_1", "title": "second"},
    "session_open": {"imageId": "img_1", "gateway": "chat", "external": "t1"},
    "session_set_title": {"sessionId": "sess_1", "title": "other"},
    "session_browse": {"containerId": "c1"},
    "session_history": {"sessionId": "sess_1", "order": "newest"},
    "session_search": {"q": "secret hi", "containerId": "c1"},
    "session_mark_read": {"sessionId": "sess_1", "device": "phone"},
    "session_fork": {"sessionId": "sess_1", "title": "other way"},
    "session_rewind": {"sessionId": "sess_1", "before": "msg_1"},
    "session_draft": {"sessionId": "sess_1", "text": "not yet", "device": "phone"},
    "session_draft_list": {"containerId": "c1"},
    "agent_interrupt": {"imageId": "img_1", "agentId": "agent_1", "sessionId": "sess_1"},
    "message_send": {"imageId": "img_1", "agentId": "agent_1", "sessionId": "sess_1", "content": "hi"},
    "run_start": {"content": "hi", "agent": "img_1"},
    "schedule_create": {"agent": "default", "cron": "0 9 * * *", "message": "Good morning", "containerId": "c1"},
    "trigger_create": {"agent": "default", "message": "Something happened", "containerId": "c1"},
    "message_edit": {"sessionId": "sess_1", "messageId": "msg_1", "content": "hello"},
    "tool_waits": {"sessionId": "sess_1", "state": "open"},
    "tool_explain": {"turnId": "turn_1", "callId": "c1"},
    "tool_answer": {"waitId": "wait_1", "fingerprint": "sha256:1", "decision": "deny", "reason": "no"},
    "resource_register": {"type": "prompt", "name": "hello", "content": {"text": "Hello."}},
    "resource_publish": {"uri": "resource://prompts/hello", "content": {"text": "Hello!"}},
    "resource_list": {"scope": "own"},
    "resource_resolve": {"uri": "resource://prompts/hello", "args": {"name": "Ada"}},
}
REQUESTS = {name: _REQUESTS.get(name, ids_of(kind)) for name, kind in COMMANDS.items()}

CONTEXT = EventScope(container_id=ContainerId("c1"), image_id=ImageId("img_1"), session_id=SessionId("sess_1"))


def event(data: EventData, scope: EventScope = CONTEXT, tenant_id: TenantId = DEFAULT_TENANT) -> Event:
    return Event(data=data, scope=scope, timestamp=7, tenant_id=tenant_id)
