"""The events that really reach a client: at least thirty kinds, each in the catalogue and with the envelope 1.x documents."""

from tests.support.serving import Play, serving
from tests.support.wire import Client19, Json, client

from agentvm.drivers.base import (
    MessageStarted,
    MessageStopped,
    Prompt,
    TextChunk,
    TextStarted,
    TextStopped,
    ThinkingChunk,
    ThinkingStarted,
    ThinkingStopped,
)
from agentvm.drivers.scripted import ScriptStep, last_user_text
from agentvm.events import CATALOGUE

LIFECYCLE = ("container", "lifecycle", "notification")
SESSION = ("session", "lifecycle", "notification")
STREAM = ("agent", "stream", "notification")
STATE = ("agent", "state", "notification")
MESSAGE = ("agent", "message", "notification")
FILE = ("sandbox", "workdir", "result")
TURN = ("agent", "turn", "notification")

DOCUMENTED: dict[str, tuple[str, str, str]] = {
    # 1.9 sends these; protocol document, section 4.1.
    "container_created": LIFECYCLE,
    "agent_registered": LIFECYCLE,
    "agent_unregistered": LIFECYCLE,
    "session_destroyed": SESSION,
    "message_persisted": ("session", "persist", "result"),
    "interrupted": ("agent", "lifecycle", "notification"),
    "system_error": ("command", "error", "notification"),
    "message_start": STREAM,
    "text_content_block_start": STATE,
    "text_content_block_stop": STATE,
    "text_delta": STREAM,
    "tool_use_start": STREAM,
    "input_json_delta": STREAM,
    "tool_use_stop": STREAM,
    "tool_result": STREAM,
    "message_stop": STREAM,
    "error_received": STATE,
    "conversation_start": STATE,
    "conversation_responding": STATE,
    "conversation_end": STATE,
    "tool_planned": STATE,
    "tool_executing": STATE,
    "error_occurred": STATE,
    "assistant_message": MESSAGE,
    "tool_call_message": MESSAGE,
    "tool_result_message": MESSAGE,
    "error_message": MESSAGE,
    # 1.9 declares these and never sends them; section 4.2.
    "user_message": MESSAGE,
    "message_delta": STREAM,
    "conversation_queued": STATE,
    "conversation_thinking": STATE,
    "tool_completed": STATE,
    "tool_failed": STATE,
    "turn_request": TURN,
    "turn_response": TURN,
    "session_created": SESSION,
    "session_title_updated": SESSION,
    "session_forked": SESSION,
    "file_written": FILE,
    "file_deleted": FILE,
    # Ours: additive, so that lists update by themselves and reasoning can be shown.
    "session_updated": SESSION,
    "session_deleted": SESSION,
    "session_restored": SESSION,
    "session_read": SESSION,
    "session_rewound": SESSION,
    "session_compacted": SESSION,
    "session_draft_updated": SESSION,
    "image_created": LIFECYCLE,
    "image_updated": LIFECYCLE,
    "image_deleted": LIFECYCLE,
    "container_deleted": LIFECYCLE,
    "thinking_delta": STREAM,
    # Ours: told after a restart, and to subscribers with a cursor. Provoked in tests/faults.
    "quota_warning": SESSION,
    "provider_fallback": SESSION,
    "turn_suspended": TURN,
    "turn_resumed": TURN,
    "turn_parked": TURN,
    "tool_waiting": STATE,
    "tool_answered": STATE,
    "tool_progress": STATE,
    "tool_started": STATE,
    "tool_wait_expired": STATE,
    "agent_switched": STATE,
    "tool_denied": STATE,
    "schedule_missed": LIFECYCLE,
    "resync_required": SESSION,
}
RARE = {"quota_warning", "provider_fallback", "turn_suspended", "turn_resumed", "resync_required"}
RARE |= {"file_written", "file_deleted"}
RARE |= {"turn_parked", "tool_waiting", "tool_answered", "tool_started", "tool_progress", "tool_wait_expired", "tool_denied"}
RARE |= {"schedule_missed", "agent_switched"}
RARE |= {"session_updated", "session_deleted", "session_restored", "session_read", "session_compacted"}
RARE |= {"session_forked", "session_rewound", "session_draft_updated"}

CTX = {"containerId", "imageId", "agentId", "sessionId"}
CONTEXT: dict[str, set[str]] = {
    "container_created": {"containerId"},
    "container_deleted": {"containerId"},
    "agent_registered": {"containerId", "agentId"},
    "agent_unregistered": {"containerId", "agentId"},
    "message_persisted": {"containerId", "sessionId"},
    "system_error": set(),
    **{kind: {"containerId", "imageId"} for kind in ("image_created", "image_updated", "image_deleted")},
    **{kind: {"containerId", "imageId"} for kind in ("session_created", "session_title_updated")},
}
"""The ids an event must name; all four where nothing is said."""


def thoughtful(prompt: Prompt) -> list[ScriptStep]:
    thought: list[ScriptStep] = [ThinkingStarted(), ThinkingChunk("hm"), ThinkingStopped("signature")]
    spoken: list[ScriptStep] = [TextStarted(), TextChunk("so"), TextStopped()]
    return [MessageStarted("", "scripted"), *thought, *spoken, MessageStopped("end_turn")]


async def everything_that_happens(alice: Client19) -> None:
    record = await alice.image(name="Chat")
    image_id = record["imageId"]
    for content in ("hello there", "think", "tool please", "broken", "crash"):
        await alice.say(image_id, content)
    first = await alice.request("message_send_request", imageId=image_id, content="slow")
    second = await alice.request("message_send_request", imageId=image_id, content="queued")
    await alice.wait(lambda event: event["type"] == "text_delta" and event["data"]["text"] == "w1 ")
    await alice.request("agent_interrupt_request", imageId=image_id)
    for sent in (first, second):
        await alice.end_of(sent["turnId"])
    session = (await alice.request("session_create_request", imageId=image_id, title="Other"))["session"]
    await alice.request("session_set_title_request", sessionId=session["sessionId"], title="Another")
    await alice.request("image_update_request", imageId=image_id, updates={"name": "New"})
    await alice.request("image_run_request", imageId="nope")
    await alice.request("image_delete_request", imageId=image_id)
    await alice.request("container_delete_request", containerId=record["containerId"])


async def heard() -> list[Json]:
    play = Play()

    def script(prompt: Prompt) -> list[ScriptStep]:
        return thoughtful(prompt) if last_user_text(prompt) == "think" else list(play(prompt))

    async with serving(script) as server, client(server.url) as alice:
        await everything_that_happens(alice)
        return [event for event in alice.events if event.get("category") != "response" and event["type"] != "server_hello"]


async def test_at_least_thirty_kinds_of_events_reach_a_client_and_all_are_documented() -> None:
    events = await heard()
    kinds = {event["type"] for event in events}
    assert len(kinds) >= 30
    assert kinds <= CATALOGUE.keys()
    assert kinds == DOCUMENTED.keys() - RARE
    for event in events:
        assert (event["source"], event["category"], event["intent"]) == DOCUMENTED[event["type"]], event
        assert type(event["timestamp"]) is int
        assert isinstance(event["data"], dict)
        assert event["context"].keys() >= CONTEXT.get(event["type"], CTX), event


async def test_every_event_of_a_turn_names_its_turn() -> None:
    for event in await heard():
        if event["source"] == "agent" and event["type"] != "interrupted":
            assert event["context"]["turnId"].startswith("turn_")


def test_the_catalogue_holds_nothing_that_is_never_sent() -> None:
    assert CATALOGUE.keys() == DOCUMENTED.keys()
    for kind, data in CATALOGUE.items():
        assert (data.source, data.category, data.intent) == DOCUMENTED[kind]
