"""Notes — what a type cannot say of an event; a test keeps them complete."""

EVENT_NOTES: dict[str, str] = {
    "container_created": "A container is new.",
    "container_deleted": "A container was deleted with all that was in it, for good; a client forgets it.",
    "image_created": "An image was built.",
    "image_updated": "An image was renamed, described or built anew.",
    "image_deleted": "An image and its histories are gone; one that went with its last session comes back with it.",
    "agent_registered": "An agent started. `definitionName` holds the image's name, as 1.x has it.",
    "agent_unregistered": "An agent ended.",
    "session_created": "A session was added to an image.",
    "session_title_updated": "A session was given a title, or lost it.",
    "session_updated": "A session was pinned or archived, or no longer is: `pinnedAt` and `archivedAt` are absent then.",
    "session_deleted": "A session was deleted. It can be restored until `restorableUntil`.",
    "session_restored": "A deleted session is back.",
    "session_forked": "A session began with what was said in another.",
    "session_rewound": "Messages were taken back; a client drops them, or reads the history again.",
    "session_draft_updated": "Somebody has begun to write in a session, or `removed` what they had begun; the text is theirs "
    "alone, and not told. `userId` is absent where nobody has to say who they are, `device` for what is of no device.",
    "session_read": "Somebody has read a session: `unread` answers are left for them. `userId` is absent where nobody has to "
    "say who they are.",
    "session_compacted": "The messages up to that one were summarized; they stay. `session_summaries` shows the summary.",
    "session_destroyed": "The session's agent ended. The history stays; the name is 1.x's.",
    "interrupted": "An interrupt was accepted. If a turn was running, its own end follows.",
    "message_persisted": "The user's message is stored.",
    "user_message": "The user's message. Also tells the user's other devices.",
    "assistant_message": "A model call ended with text. The id is that of `message_start`.",
    "tool_call_message": "The model asked for a tool.",
    "tool_result_message": "A tool gave its result or failed.",
    "error_message": "The turn failed.",
    "turn_request": "A turn was accepted and stored, together with the user's message.",
    "turn_response": "The turn ended. Exactly one per turn, always its last event. `duration` is in milliseconds, `price` in "
    "nano-USD: what the turn costs the tenant.",
    "quota_warning": "A soft limit is reached; nothing is refused yet. `resetAt` is when the window is renewed.",
    "provider_fallback": "The chosen provider is out, so this model call goes to another; both are `<provider>/<model>`. "
    "`reason` is the code of its error, `retryAt` when it may be asked again.",
    "turn_parked": "Every open call of the turn waits for somebody; the turn goes on with the first answer. `active` is how "
    "long it has run, in milliseconds.",
    "agent_switched": "The conversation was handed over to another agent of the image, which answers from here on; `agent` is "
    "its URI, empty for the image's own.",
    "tool_waiting": "A call waits: for an approval, for its client, which runs it, or for what its tool asks. Answer with "
    "`tool_answer`, which gives back the `fingerprint`; nobody answers until `expiresAt`: the call is denied.",
    "tool_answered": "A wait ended. `decision` is also `expired`, or `superseded` when the user went on.",
    "tool_progress": "A call goes on. Four a second are sent at most; of what comes between, the last.",
    "tool_started": "A call begins that has waited, or that must not run twice. It is stored before the call is made.",
    "tool_wait_expired": "Nobody has answered until `expiresAt`: the call is not made, and the turn goes on.",
    "tool_denied": "A call is not made, because a rule or a person says so. `reason` is what the model is told.",
    "file_written": "A file of the session has new bytes: by a tool, or by an upload. `digest` names the bytes. Of a call that "
    "changes more than 100 files, 100 are told.",
    "schedule_missed": "A schedule was due `count` times, the first at `dueAt`, and did not run. `reason` is `outage`, "
    "`overlap`, `budget`, or the code of an error.",
    "file_deleted": "A file of the session was deleted.",
    "turn_suspended": "The server is being restarted; the turn goes on when it is back, with `turn_resumed`.",
    "turn_resumed": "The server was restarted during the turn, which goes on. A message that was not finished goes on too, "
    "under a new id: see `message_start`.",
    "resync_required": "The events after the subscriber's cursor are no longer there. Read the history, then go on from "
    "`cursor`.",
    "message_start": "A model call began to answer. `asked` is the `<provider>/<model>` it was made to, `model` what that "
    "calls itself, `askedAt` when that was, and `attempt` is 2 or more when it was asked again or another did not answer. "
    "`text` is there after a restart: what was told of the message before, with which it begins; only what follows is told.",
    "message_delta": "Tokens of this model call so far.",
    "message_stop": "The model call ended. `tool_use` means that tools run and another call follows.",
    "text_content_block_start": "Text begins. The category is 1.x's.",
    "text_delta": "A piece of the answer's text.",
    "text_content_block_stop": "Text ends. The category is 1.x's.",
    "thinking_delta": "A piece of the model's reasoning.",
    "tool_use_start": "The model begins to ask for a tool.",
    "input_json_delta": "A piece of the tool's input, as JSON text.",
    "tool_use_stop": "The tool's input is complete.",
    "tool_result": "The raw result of a tool, or the text of its error.",
    "conversation_queued": "The message waits until the turn before it has ended.",
    "conversation_start": "A model call began. Once per model call, not per turn.",
    "conversation_thinking": "The model reasons.",
    "conversation_responding": "The model writes text. Once per text block.",
    "conversation_end": "The turn completed or was interrupted. A failed turn has `error_occurred` instead.",
    "tool_planned": "The model begins to ask for a tool.",
    "tool_executing": "Follows `tool_planned` at once, so `input` is still empty; `tool_use_stop` has it. "
    "With `parentId` a program makes the call, and `input` is there unless it is long.",
    "tool_completed": "A tool gave its result; with `parentId` to a program, and a long one is cut here.",
    "tool_failed": "A tool failed. The model is told, and the turn goes on.",
    "system_error": "A command failed. Goes to the connection that sent it, before the reply.",
    "error_received": "The turn failed. First of three error events.",
    "error_occurred": "The turn failed. Last of three error events. `recoverable`: sending again may succeed.",
}
