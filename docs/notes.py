"""Notes — the description of each event in the reference; a test keeps them complete."""

EVENT_NOTES: dict[str, str] = {
    "container_created": "A container was created.",
    "container_deleted": "A container was permanently deleted with its content; clients drop it.",
    "image_created": "An image was built.",
    "image_updated": "An image was renamed, described or rebuilt.",
    "image_deleted": "An image and its histories were deleted. An image that was deleted with its last session is restored "
    "with it.",
    "agent_registered": "An agent started. `definitionName` holds the image's name, as 1.x has it.",
    "agent_unregistered": "An agent ended.",
    "session_created": "A session was added to an image.",
    "session_title_updated": "The title of a session was set or removed.",
    "session_updated": "A session was pinned, unpinned, archived or unarchived; without `pinnedAt` or `archivedAt` it is not "
    "pinned or archived.",
    "session_deleted": "A session was deleted. It can be restored until `restorableUntil`.",
    "session_restored": "A deleted session was restored.",
    "session_forked": "A session was created as a copy of another.",
    "session_rewound": "Messages were removed by a rewind; a client drops them, or reads the history again.",
    "session_draft_updated": "A draft was saved or `removed`; its text is private and not sent. `userId` is absent without "
    "authentication, `device` for a draft without a device.",
    "session_read": "A user has read a session: `unread` answers remain. `userId` is absent without authentication.",
    "session_compacted": "The messages up to that one were summarized; they are kept. `session_summaries` shows the summary.",
    "session_destroyed": "The session's agent ended. The history stays; the name is 1.x's.",
    "interrupted": "An interrupt was accepted. If a turn was running, its own end follows.",
    "message_persisted": "The user's message is stored.",
    "user_message": "The user's message, also for the user's other devices.",
    "assistant_message": "A model call ended with text. The id is that of `message_start`.",
    "tool_call_message": "The model called a tool.",
    "tool_result_message": "A tool returned its result or failed.",
    "error_message": "The turn failed.",
    "turn_request": "A turn was accepted and stored, together with the user's message.",
    "turn_response": "The turn ended. Exactly one per turn, always its last event. `duration` is in milliseconds, `price` in "
    "nano-USD: what the tenant is charged, with the sub-agents of the turn. `usage` is that of its own model calls.",
    "quota_warning": "A soft limit is reached; nothing is refused yet. `resetAt` is when the period is renewed.",
    "provider_fallback": "The chosen provider is unavailable, so this model call goes to another; both are "
    "`<provider>/<model>`. `reason` is the code of its error, `retryAt` when it may be called again.",
    "turn_parked": "Every open call of the turn waits for an answer; the turn continues with the first one. `active` is how "
    "long it has run, in milliseconds.",
    "agent_switched": "The conversation was handed over to another agent of the image, which answers from now on; `agent` is "
    "its URI, empty for the image's own.",
    "tool_waiting": "A call waits for an approval, for the client that runs it, or for an answer to its tool. Answer with "
    "`tool_answer` and the `fingerprint`; without an answer the call is denied at `expiresAt`.",
    "tool_answered": "A wait ended. `decision` is also `expired`, or `superseded` by a new message of the user.",
    "tool_progress": "A call reports progress. At most four per second are sent; of those in between, the last.",
    "tool_started": "A call starts that has waited, or that must not run twice. The event is stored before the call is made.",
    "tool_wait_expired": "There was no answer until `expiresAt`: the call is denied, and the turn continues.",
    "tool_denied": "A rule or a person has denied a call. `reason` is the text that the model receives.",
    "file_written": "A tool or an upload has changed a file of the session. `digest` is that of its content. A call that "
    "changes more than 100 files causes 100 events.",
    "schedule_missed": "A schedule was due `count` times, the first at `dueAt`, and did not run. `reason` is `outage`, "
    "`overlap`, `budget`, or the code of an error.",
    "file_deleted": "A file of the session was deleted.",
    "turn_suspended": "The server is being restarted; the turn continues after the restart, with `turn_resumed`.",
    "turn_resumed": "The server was restarted during the turn, which continues. An unfinished message continues under a new "
    "id: see `message_start`.",
    "resync_required": "The events after the subscriber's cursor are no longer stored. Read the history, then continue from "
    "`cursor`.",
    "message_start": "A model call began to answer. `asked` is the `<provider>/<model>` that was called, `model` the name "
    "that it reports, `askedAt` the time of the call; `attempt` is 2 or more after a retry or a fallback. After a restart "
    "`text` is the beginning of the message that was sent before; only the rest follows.",
    "message_delta": "Tokens of this model call so far.",
    "message_stop": "The model call ended. `tool_use` means that tools run and another call follows.",
    "text_content_block_start": "Text begins. The category is 1.x's.",
    "text_delta": "A piece of the answer's text.",
    "text_content_block_stop": "Text ends. The category is 1.x's.",
    "thinking_delta": "A piece of the model's reasoning.",
    "tool_use_start": "The model begins a tool call.",
    "input_json_delta": "A piece of the tool's input, as JSON text.",
    "tool_use_stop": "The tool's input is complete.",
    "tool_result": "The raw result of a tool, or the text of its error.",
    "conversation_queued": "The message waits for the end of the previous turn.",
    "conversation_start": "A model call began. Once per model call, not per turn.",
    "conversation_thinking": "The model reasons.",
    "conversation_responding": "The model writes text. Once per text block.",
    "conversation_end": "The turn completed or was interrupted. A failed turn has `error_occurred` instead.",
    "tool_planned": "The model begins a tool call.",
    "tool_executing": "Follows `tool_planned` at once, so `input` is still empty; `tool_use_stop` has it. With `parentId` a "
    "program makes the call, and `input` is present unless it is long.",
    "tool_completed": "A tool returned its result; with `parentId` to a program, and a long result is truncated here.",
    "tool_failed": "A tool failed. The model gets the error, and the turn continues.",
    "system_error": "A command failed. Sent to the connection of the command, before the reply.",
    "error_received": "The turn failed. First of three error events.",
    "error_occurred": "The turn failed. Last of three error events. `recoverable`: sending again may succeed.",
}
