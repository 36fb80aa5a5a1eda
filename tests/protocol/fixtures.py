"""One well-formed request per command, and texts no JSON library likes."""

from agentvm.events.base import Event, EventData, EventScope
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, ImageId, SessionId, TenantId

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

REQUESTS: dict[str, dict[str, object]] = {
    "container_create": {"containerId": "c1"},
    "container_get": {"containerId": "c1"},
    "container_list": {},
    "container_delete": {"containerId": "c1"},
    "attachment_list": {"containerId": "c1"},
    "attachment_get": {"containerId": "c1", "attachment": f"attachment:sha256:{'0' * 64}"},
    "definition_list": {},
    "definition_get": {"definitionName": "default"},
    "definition_register": {"definition": {"name": "poet", "systemPrompt": "rhyme", "tools": []}},
    "image_create": {"containerId": "c1", "config": {"name": "Chat", "mcpServers": {"x": {"command": "y"}}}},
    "image_build": {"containerId": "c1", "definition": "default", "config": {"model": "scripted"}},
    "image_run": {"imageId": "img_1"},
    "image_stop": {"imageId": "img_1"},
    "image_update": {"imageId": "img_1", "updates": {"name": "Renamed"}},
    "image_upgrade": {"imageId": "img_1"},
    "image_list": {"containerId": "c1"},
    "image_get": {"imageId": "img_1"},
    "image_delete": {"imageId": "img_1"},
    "image_messages": {"imageId": "img_1"},
    "session_create": {"imageId": "img_1", "title": "second"},
    "session_get": {"sessionId": "sess_1"},
    "session_list": {"imageId": "img_1"},
    "session_set_title": {"sessionId": "sess_1", "title": "other"},
    "session_release": {"sessionId": "sess_1"},
    "session_resume": {"sessionId": "sess_1"},
    "session_messages": {"sessionId": "sess_1"},
    "session_browse": {"containerId": "c1"},
    "session_history": {"sessionId": "sess_1", "order": "newest"},
    "session_search": {"q": "secret hi", "containerId": "c1"},
    "session_mark_read": {"sessionId": "sess_1", "device": "phone"},
    "session_pin": {"sessionId": "sess_1"},
    "session_archive": {"sessionId": "sess_1"},
    "session_delete": {"sessionId": "sess_1"},
    "session_restore": {"sessionId": "sess_1"},
    "session_fork": {"sessionId": "sess_1", "title": "other way"},
    "session_rewind": {"sessionId": "sess_1", "before": "msg_1"},
    "session_rewinds": {"sessionId": "sess_1"},
    "session_compact": {"sessionId": "sess_1"},
    "session_summaries": {"sessionId": "sess_1"},
    "session_draft": {"sessionId": "sess_1", "text": "not yet", "device": "phone"},
    "session_drafts": {"sessionId": "sess_1"},
    "session_draft_list": {"containerId": "c1"},
    "agent_get": {"agentId": "agent_1"},
    "agent_list": {"containerId": "c1"},
    "agent_destroy": {"agentId": "agent_1"},
    "agent_destroy_all": {"containerId": "c1"},
    "agent_interrupt": {"imageId": "img_1", "agentId": "agent_1", "sessionId": "sess_1"},
    "message_send": {"imageId": "img_1", "agentId": "agent_1", "sessionId": "sess_1", "content": "hi"},
    "message_edit": {"sessionId": "sess_1", "messageId": "msg_1", "content": "hello"},
    "message_regenerate": {"sessionId": "sess_1"},
    "resource_register": {"type": "prompt", "name": "hello", "content": {"text": "Hello."}},
    "resource_publish": {"uri": "resource://prompts/hello", "content": {"text": "Hello!"}},
    "resource_list": {"scope": "own"},
    "resource_resolve": {"uri": "resource://prompts/hello", "args": {"name": "Ada"}},
}

CONTEXT = EventScope(container_id=ContainerId("c1"), image_id=ImageId("img_1"), session_id=SessionId("sess_1"))


def event(data: EventData, scope: EventScope = CONTEXT, tenant_id: TenantId = DEFAULT_TENANT) -> Event:
    return Event(data=data, scope=scope, timestamp=7, tenant_id=tenant_id)
