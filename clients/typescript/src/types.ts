// Written by docs/typescript.py from the operation table. Do not edit: run python -m docs.generate.

import type { CallOptions } from "./api.ts";


/** Where an event happened. */
export type Scope = { containerId?: string; imageId?: string; agentId?: string; sessionId?: string; turnId?: string };

/** The data of every event, by its type. */
export interface Events {
  /** An agent started. `definitionName` holds the image's name, as 1.x has it. */
  agent_registered: { containerId: string; agentId: string; definitionName: string; registeredAt: number; imageId?: string; sessionId?: string };
  /** The conversation was handed over to another agent of the image, which answers from now on; `agent` is its URI, empty for the image's own. */
  agent_switched: { turnId: string; agent: string; name: string };
  /** An agent ended. */
  agent_unregistered: { containerId: string; agentId: string; imageId?: string; sessionId?: string };
  /** A model call ended with text. The id is that of `message_start`. */
  assistant_message: AssistantMessage;
  /** A container was created. */
  container_created: { containerId: string; createdAt: number };
  /** A container was permanently deleted with its content; clients drop it. */
  container_deleted: { containerId: string; deletedAt: number };
  /** The turn completed or was interrupted. A failed turn has `error_occurred` instead. */
  conversation_end: { reason: "completed" | "interrupted" };
  /** The message waits for the end of the previous turn. */
  conversation_queued: { messageId: string };
  /** The model writes text. Once per text block. */
  conversation_responding: {};
  /** A model call began. Once per model call, not per turn. */
  conversation_start: { messageId: string };
  /** The model reasons. */
  conversation_thinking: {};
  /** The turn failed. */
  error_message: ErrorMessage;
  /** The turn failed. Last of three error events. `recoverable`: sending again may succeed. */
  error_occurred: { code: string; message: string; recoverable: boolean };
  /** The turn failed. First of three error events. */
  error_received: { message: string; errorCode: string };
  /** A file of the session was deleted. */
  file_deleted: { path: string; timestamp: number };
  /** A tool or an upload has changed a file of the session. `digest` is that of its content. A call that changes more than 100 files causes 100 events. */
  file_written: { path: string; timestamp: number; size: number; digest: string };
  /** An image was built. */
  image_created: { imageId: string; containerId: string; name: string; createdAt: number };
  /** An image and its histories were deleted. An image that was deleted with its last session is restored with it. */
  image_deleted: { imageId: string; containerId: string };
  /** An image was renamed, described or rebuilt. */
  image_updated: { imageId: string; containerId: string; name: string; updatedAt: number; description?: string };
  /** A piece of the tool's input, as JSON text. */
  input_json_delta: { partialJson: string };
  /** An interrupt was accepted. If a turn was running, its own end follows. */
  interrupted: { agentId: string; containerId: string; turnId?: string };
  /** Tokens of this model call so far. */
  message_delta: { usage: Usage };
  /** The user's message is stored. */
  message_persisted: { sessionId: string; messageId: string; savedAt: number };
  /** A model call began to answer. `asked` is the `<provider>/<model>` that was called, `model` the name that it reports, `askedAt` the time of the call; `attempt` is 2 or more after a retry or a fallback. After a restart `text` is the beginning of the message that was sent before; only the rest follows. */
  message_start: { messageId: string; model: string; asked?: string; askedAt?: number; attempt?: number; text?: string; draft?: boolean };
  /** The model call ended. `tool_use` means that tools run and another call follows. */
  message_stop: { stopReason: string };
  /** The chosen provider is unavailable, so this model call goes to another; both are `<provider>/<model>`. `reason` is the code of its error, `retryAt` when it may be called again. */
  provider_fallback: { from: string; to: string; reason: string; retryAt?: number };
  /** A soft limit is reached; nothing is refused yet. `resetAt` is when the period is renewed. */
  quota_warning: { metric: string; limit: number; used: number; resetAt?: number };
  /** The events after the subscriber's cursor are no longer stored. Read the history, then continue from `cursor`. */
  resync_required: { sessionId: string; cursor: string };
  /** A schedule was due `count` times, the first at `dueAt`, and did not run. `reason` is `outage`, `overlap`, `budget`, or the code of an error. */
  schedule_missed: { scheduleId: string; name: string; count: number; dueAt: number; reason: string };
  /** The messages up to that one were summarized; they are kept. `session_summaries` shows the summary. */
  session_compacted: { sessionId: string; summaryId: string; messageId: string; tokens: number };
  /** A session was added to an image. */
  session_created: { sessionId: string; imageId: string; containerId: string; title: string | null; createdAt: number };
  /** A session was deleted. It can be restored until `restorableUntil`. */
  session_deleted: { sessionId: string; imageId: string; containerId: string; deletedAt: number; restorableUntil: number };
  /** The session's agent ended. The history stays; the name is 1.x's. */
  session_destroyed: { sessionId: string; agentId: string; containerId: string };
  /** A draft was saved or `removed`; its text is private and not sent. `userId` is absent without authentication, `device` for a draft without a device. */
  session_draft_updated: { sessionId: string; updatedAt: number; userId?: string; device?: string; removed?: boolean };
  /** A session was created as a copy of another. */
  session_forked: { originalSessionId: string; newSessionId: string; newImageId: string; forkedAt: number; messageId?: string };
  /** A user has read a session: `unread` answers remain. `userId` is absent without authentication. */
  session_read: { sessionId: string; unread: number; readAt: number; userId?: string };
  /** A deleted session was restored. */
  session_restored: { sessionId: string; imageId: string; containerId: string; title: string | null; updatedAt: number };
  /** Messages were removed by a rewind; a client drops them, or reads the history again. */
  session_rewound: { sessionId: string; rewindId: string; messageIds: string[]; rewoundAt: number; keptId?: string; folded?: number };
  /** The title of a session was set or removed. */
  session_title_updated: { sessionId: string; title: string | null; updatedAt: number };
  /** A session was pinned, unpinned, archived or unarchived; without `pinnedAt` or `archivedAt` it is not pinned or archived. */
  session_updated: { sessionId: string; imageId: string; containerId: string; updatedAt: number; pinnedAt?: number; archivedAt?: number };
  /** A command failed. Sent to the connection of the command, before the reply. */
  system_error: { message: string; severity: "error" | "fatal" | "info" | "warn"; code: string; requestId?: string };
  /** Text begins. The category is 1.x's. */
  text_content_block_start: {};
  /** Text ends. The category is 1.x's. */
  text_content_block_stop: {};
  /** A piece of the answer's text. */
  text_delta: { text: string };
  /** A piece of the model's reasoning. */
  thinking_delta: { text: string };
  /** A wait ended. `decision` is also `expired`, or `superseded` by a new message of the user. */
  tool_answered: { waitId: string; turnId: string; toolId: string; toolName: string; decision: "answer" | "approve" | "deny" | "edit" | "expired" | "superseded"; by?: string; reason?: string; sessionId?: string };
  /** The model called a tool. */
  tool_call_message: ToolCallMessage;
  /** A tool returned its result; with `parentId` to a program, and a long result is truncated here. */
  tool_completed: { toolId: string; toolName: string; result: unknown; parentId?: string };
  /** A rule or a person has denied a call. `reason` is the text that the model receives. */
  tool_denied: { turnId: string; toolId: string; toolName: string; reason: string };
  /** Follows `tool_planned` at once, so `input` is still empty; `tool_use_stop` has it. With `parentId` a program makes the call, and `input` is present unless it is long. */
  tool_executing: { toolId: string; toolName: string; input: Record<string, unknown>; parentId?: string };
  /** A tool failed. The model gets the error, and the turn continues. */
  tool_failed: { toolId: string; toolName: string; error: string; parentId?: string };
  /** The model begins a tool call. */
  tool_planned: { toolId: string; toolName: string };
  /** A call reports progress. At most four per second are sent; of those in between, the last. */
  tool_progress: { turnId: string; toolId: string; toolName: string; progress: number; total?: number; message?: string };
  /** The raw result of a tool, or the text of its error. */
  tool_result: { toolCallId: string; result: unknown; isError: boolean };
  /** A tool returned its result or failed. */
  tool_result_message: ToolResultMessage;
  /** A call starts that has waited, or that must not run twice. The event is stored before the call is made. */
  tool_started: { turnId: string; toolId: string; toolName: string };
  /** The model begins a tool call. */
  tool_use_start: { toolCallId: string; toolName: string };
  /** The tool's input is complete. */
  tool_use_stop: { toolCallId: string; toolName: string; input: Record<string, unknown> };
  /** There was no answer until `expiresAt`: the call is denied, and the turn continues. */
  tool_wait_expired: { waitId: string; turnId: string; toolId: string; toolName: string; sessionId?: string };
  /** A call waits for an approval, for the client that runs it, or for an answer to its tool. Answer with `tool_answer` and the `fingerprint`; without an answer the call is denied at `expiresAt`. */
  tool_waiting: { waitId: string; turnId: string; toolId: string; toolName: string; kind: "approval" | "child" | "client" | "consent" | "elicitation" | "question" | "timer"; input: Record<string, unknown>; fingerprint: string; decisions: ("answer" | "approve" | "deny" | "edit")[]; why: string; audience: string; expiresAt: number; questions?: Record<string, Question>; url?: string; held?: boolean; sessionId?: string };
  /** Every open call of the turn waits for an answer; the turn continues with the first one. `active` is how long it has run, in milliseconds. */
  turn_parked: { turnId: string; messageId: string; waits: string[]; active: number; timestamp: number };
  /** A turn was accepted and stored, together with the user's message. */
  turn_request: { turnId: string; messageId: string; timestamp: number; clientKey?: string; userId?: string; keyId?: string; onParked?: "queue" | "reject" | "supersede"; options?: TurnOptions; origin?: TurnOrigin };
  /** The turn ended. Exactly one per turn, always its last event. `duration` is in milliseconds, `price` in nano-USD: what the tenant is charged, with the sub-agents of the turn. `usage` is that of its own model calls. */
  turn_response: { turnId: string; messageId: string; outcome: "completed" | "failed" | "interrupted"; stopReason: "end_turn" | "error" | "interrupted" | "max_tokens" | "refusal" | "stop_sequence"; duration: number; usage: Usage; timestamp: number; model?: string; price?: number; output?: unknown };
  /** The server was restarted during the turn, which continues. An unfinished message continues under a new id: see `message_start`. */
  turn_resumed: { turnId: string; messageId: string; attempt: number; timestamp: number; userId?: string };
  /** The server is being restarted; the turn continues after the restart, with `turn_resumed`. */
  turn_suspended: { turnId: string; messageId: string; timestamp: number };
  /** The user's message, also for the user's other devices. */
  user_message: UserMessage;
}

/** The data of every command and of its reply, by name. */
export interface Commands {
  /** Create a container, if there is none. Emits `containerCreated` when the container is new. */
  container_create: { request: { containerId: string }; reply: { containerId?: string } };
  /** Ask whether a container exists. `containerId` is absent when it does not. */
  container_get: { request: { containerId: string }; reply: { exists: boolean; containerId?: string } };
  /** List the containers that you may use, oldest first, page by page. */
  container_list: { request: { cursor?: string | null; limit?: number }; reply: { containerIds: string[]; nextCursor?: string } };
  /** Delete a container. Everything in it is deleted, which cannot be undone; its turns are stopped first. Emits `containerDeleted`. A user may delete a container that no other user is bound to. With `dryRun` nothing is deleted, and the reply counts the data that would be. Until the contents are erased, creating a container of the same id fails with `containerErasing`. */
  container_delete: { request: { containerId: string; dryRun?: boolean }; reply: { containerId: string; deleted: boolean; owned?: OwnedRecord } };
  /** List the definitions that images can be built from. The server's own, those registered since it started, then the agents of the resource centre: the tenant's, then those that ship with the server, at most 1,000. Agents have a `uri` and need the permission `resources:read`. */
  definition_list: { request: {}; reply: { definitions: DefinitionRecord[] } };
  /** Show a definition. `definitionName` may also be the URI of an agent. `definition` is `null` when there is none. */
  definition_get: { request: { definitionName: string }; reply: { definition: DefinitionRecord | null } };
  /** Register a definition. The same one again changes nothing. Fails with `definitionConflict` for another one of that name, also when the tenant has an agent of that name, `driverNotFound`, `toolNotFound`. */
  definition_register: { request: { definition: Definition }; reply: { definition: Definition } };
  /** Build an image. From the server's default definition, or from the one that `config.definition` names, and `config`, with a default session. Resolves every `resource://` URI. Creates the container if it is new. Subscribes. Emits `imageCreated`. Fails with `driverNotFound`, `toolNotFound`, `definitionNotFound`, `resourceNotFound`, `promptUnresolved`, `resourceTooDeep`, `permissionDenied`, and then creates nothing. */
  image_create: { request: { containerId: string; config?: ImageConfig | null }; reply: { record: ImageRecord; warnings?: string[] } };
  /** Build an image from a given definition; otherwise like `imageCreate`. */
  image_build: { request: { containerId: string; definition: string | Definition; config?: ImageConfig | null }; reply: { record: ImageRecord; warnings?: string[] } };
  /** Change an image. Changes the given fields that are not `null`, and resets those in `clear`. All but `name` and `description` go into the image's config, and the image is rebuilt; its agents use the new build from their next turn on. Other references keep their versions. Emits `imageUpdated`. Fails with `imageNotFound`, and as `imageCreate` does. */
  image_update: { request: { imageId: string; updates?: ImageUpdates }; reply: { record: ImageRecord; warnings?: string[] } };
  /** Resolve the references of an image again and rebuild it. References with an exact version keep it. `changes` lists references that resolve to another version now; without any, nothing is built. With `dryRun` the changes are only reported. Emits `imageUpdated`. Fails with `imageNotFound`, and as `imageCreate` does. */
  image_upgrade: { request: { imageId: string; dryRun?: boolean }; reply: { record: ImageRecord; changes: ImageChange[]; diff: Record<string, ImageDifference>; applied: boolean; warnings?: string[] } };
  /** Get the image of an agent in a container; the first time, build it. One image for each agent and container. If the agent has changed since, by its definition or a reference without an exact version, the image is rebuilt, and its sessions continue with it. Fails with `definitionNotFound`, `resourceNotFound`, `imageNotFound`, and as `imageCreate` does. */
  image_open: { request: { agent: string; containerId?: string | null }; reply: { record: ImageRecord; warnings?: string[] } };
  /** Start the agent of an image's default session, or return the running one (`reused`). Subscribes. Emits `agentRegistered` for a new agent. Fails with `imageNotFound`, `shuttingDown`. */
  image_run: { request: { imageId: string }; reply: { imageId: string; agentId: string; reused: boolean; sessionId?: string } };
  /** Stop every agent of an image. A running turn ends as interrupted. Emits `sessionDestroyed` and `agentUnregistered` for each. Fails with `imageNotFound`. */
  image_stop: { request: { imageId: string }; reply: { imageId: string } };
  /** List the images of a container, newest first. Without `containerId`, of the containers that this connection has worked with. Subscribes to their default sessions. */
  image_list: { request: { containerId?: string | null }; reply: { records: ImageRecord[] } };
  /** Show an image. `config` is the effective configuration of the image, `written` the one that was requested. Over a WebSocket `record` is `null` when there is no such image. Subscribes. */
  image_get: { request: { imageId: string }; reply: { record: ImageRecord | null } };
  /** Stop the agents of an image, then delete it with its sessions and messages. Deleting an image that does not exist succeeds. Emits `imageDeleted`. */
  image_delete: { request: { imageId: string }; reply: { imageId: string } };
  /** Read the newest messages of an image's default session, oldest first. Subscribes. Fails with `imageNotFound`. */
  image_messages: { request: { imageId: string }; reply: { imageId: string; messages: (UserMessage | AssistantMessage | ToolCallMessage | ToolResultMessage | ErrorMessage)[]; truncated?: boolean } };
  /** List the files of a container, the newest first. Files are uploaded over [HTTP](attachments.md). Fails with `containerForbidden`, `invalidInput`. */
  attachment_list: { request: { containerId?: string | null; cursor?: string | null; limit?: number }; reply: { records: AttachmentRecord[]; nextCursor?: string } };
  /** Show the record of a file. Fails with `attachmentNotFound`, also for one that only another container has, and `containerForbidden`. */
  attachment_get: { request: { attachment: string; containerId?: string | null }; reply: { record: AttachmentRecord } };
  /** Register a resource. Registering an identical version again changes nothing (200 over HTTP). With `dryRun` everything is checked and nothing is stored. Fails with `resourceExists`, `resourceInvalid`, `resourceNotFound` for a reference, `resourceCycle`, `quotaExceeded`; `details.path` of the error names the invalid field of the content. */
  resource_register: { request: { type: string; name: string; content: Record<string, unknown>; version?: string | null; description?: string | null; tags?: string[] | null; visibility?: "private" | "public" | null; schema?: Record<string, unknown> | null; dependencies?: Record<string, string> | null; tag?: string | null; dryRun?: boolean }; reply: { id: string; uri: string; version: string; digest: string; record: ResourceRecord; warnings?: string[]; created?: boolean } };
  /** Publish a new version of the tenant's own resource: `version`, or the next patch, minor or major (`bump`). Fails with `resourceNotFound`, `resourceVersionExists`, `accessDenied` for others', and as `resourceRegister` does. */
  resource_publish: { request: { uri: string; content?: Record<string, unknown> | null; version?: string | null; bump?: "major" | "minor" | "patch" | null; tag?: string | null; description?: string | null; tags?: string[] | null; visibility?: "private" | "public" | null; schema?: Record<string, unknown> | null; dependencies?: Record<string, string> | null; dryRun?: boolean }; reply: { id: string; uri: string; version: string; digest: string; record: ResourceRecord; warnings?: string[]; created?: boolean } };
  /** Search for resources. Your own and public ones; the best match first if there is a `q`, else by name. */
  resource_list: { request: { type?: string | null; q?: string | null; tag?: string | null; owner?: string | null; visibility?: "private" | "public" | null; scope?: "all" | "own" | "public"; dependsOn?: string | null; limit?: number; cursor?: string | null }; reply: { records: ResourceRecord[]; total: number; nextCursor?: string } };
  /** Resolve a URI to a version and its rendered form. Fails with `resourceNotFound`, `resourceUriInvalid`, `promptUnresolved`. */
  resource_resolve: { request: { uri: string; args?: Record<string, unknown> | null }; reply: { uri: string; resolved: string; digest: string; rendered: unknown; lock: LockRecord[]; warnings?: string[] } };
  /** Show an agent: its `state`, and how many messages wait for it. The other fields are absent when it does not exist. */
  agent_get: { request: { agentId: string }; reply: { exists: boolean; agentId?: string; containerId?: string; imageId?: string; sessionId?: string; state?: "asleep" | "idle" | "running" | "stopped" | "stopping"; queued?: number; answersAs?: string } };
  /** List the running agents of a container. */
  agent_list: { request: { containerId: string }; reply: { agents: AgentRecord[] } };
  /** Stop an agent; a running turn, and one that waits for answers, ends as interrupted. `success` is false when there was none. Emits `sessionDestroyed` and `agentUnregistered`. */
  agent_destroy: { request: { agentId: string }; reply: { agentId: string; success: boolean } };
  /** Stop every agent of a container, as `agentDestroy` does. */
  agent_destroy_all: { request: { containerId: string }; reply: { containerId?: string } };
  /** Stop the current turn of an image, an agent or a session; queued messages run on. Emits `interrupted` before the reply. The reply about an image without an agent has no `agentId`. Fails with `agentNotFound`, and with `invalidInput` when none of them is given. */
  agent_interrupt: { request: { imageId?: string | null; agentId?: string | null; sessionId?: string | null; turnId?: string | null }; reply: { imageId?: string; agentId?: string } };
  /** Explain a tool call: the rule that decided about it, and the verdict on each tier. Fails with `notFound` until the call has its result, and for calls of older releases. */
  tool_explain: { request: { turnId: string; callId: string }; reply: { turnId: string; callId: string; tool: string; policy: string; tier?: "container" | "inline" | "isolate" | "process" | "remote"; price?: number; startMs?: number; why?: string[][]; sessionId?: string } };
  /** List the memories of a container, the newest first. Proposed memories are included: no model receives them before a person accepts them with `memoryPut`. */
  memory_list: { request: { containerId: string }; reply: { containerId: string; memories: Memory[] } };
  /** Add a memory, and the container if there is none. A pinned memory is in every prompt; of the others first those that match the question, then the newest. */
  memory_add: { request: { containerId: string; text: string; pinned?: boolean }; reply: { memory: Memory } };
  /** Change a memory, accept a proposed one, or add one under your own id. From then on, rewinding the conversation that it comes from does not remove it. */
  memory_put: { request: { containerId: string; memoryId: string; text: string; pinned?: boolean }; reply: { memory: Memory } };
  /** Delete a memory. */
  memory_delete: { request: { containerId: string; memoryId: string }; reply: { memoryId: string } };
  /** List waiting tool calls, the oldest first. Of a session, a container, or all that you may use. */
  tool_waits: { request: { cursor?: string | null; limit?: number; containerId?: string | null; sessionId?: string | null; state?: "answered" | "open" | null }; reply: { waits: WaitView[]; nextCursor?: string } };
  /** Answer a waiting tool call: approve, edit or deny it, or give its result. The first answer counts. The same answer again has the same reply. */
  tool_answer: { request: { waitId: string; fingerprint: string; decision: "answer" | "approve" | "deny" | "edit"; input?: Record<string, unknown> | null; result?: unknown; reason?: string | null; remember?: "image" | "session" | null }; reply: { waitId: string; turnId: string; decision: "answer" | "approve" | "deny" | "edit" } };
  /** List the sessions of an image, its default session first. */
  session_list: { request: { imageId: string }; reply: { sessions: Session[] } };
  /** List sessions. Of one container, or of every container that you may use: pinned ones first, then by the time of the last message. */
  session_browse: { request: { containerId?: string | null; imageId?: string | null; archived?: boolean | "all" | "false" | "true"; pinned?: boolean | null; since?: number | string | null; until?: number | string | null; title?: string | null; forkedFrom?: string | null; deleted?: boolean; device?: string | null; cursor?: string | null; limit?: number }; reply: { sessions: SessionRecord[]; total: number; nextCursor?: string } };
  /** Search messages and titles. The best match first. Every word must be in a message, or in a title; a word of three letters or more also matches the beginning of a longer one. */
  session_search: { request: { q: string; containerId?: string | null; imageId?: string | null; sessionId?: string | null; role?: "assistant" | "tool" | "user" | null; tool?: string | null; since?: number | string | null; until?: number | string | null; cursor?: string | null; limit?: number }; reply: { found: FoundRecord[]; total: number; capped?: boolean; nextCursor?: string; titles?: TitleRecord[] } };
  /** Read the messages of a session, from either end, or around one of them. */
  session_history: { request: { sessionId: string; order?: "newest" | "oldest"; cursor?: string | null; around?: string | null; rewind?: string | null; follow?: boolean; turns?: boolean; limit?: number }; reply: { sessionId: string; messages: (UserMessage | AssistantMessage | ToolCallMessage | ToolResultMessage | ErrorMessage)[]; total: number; turns?: TurnRow[]; nextCursor?: string; previousCursor?: string; logCursor?: string } };
  /** Read the newest messages of a session at once. */
  session_messages: { request: { sessionId: string }; reply: { sessionId: string; messages: (UserMessage | AssistantMessage | ToolCallMessage | ToolResultMessage | ErrorMessage)[]; truncated?: boolean } };
  /** Create a session of an image. */
  session_create: { request: { imageId: string; title?: string | null }; reply: { session: Session | null } };
  /** Show a session. */
  session_get: { request: { sessionId: string; device?: string | null }; reply: { session: SessionRecord | null } };
  /** Rename a session. `null` removes the title. */
  session_set_title: { request: { sessionId: string; title: string | null }; reply: { session: Session | null } };
  /** Pin a session to the top of lists, or unpin it. */
  session_pin: { request: { sessionId: string; pinned?: boolean }; reply: { session: Session | null } };
  /** Archive a session, which hides it from lists, or unarchive it. */
  session_archive: { request: { sessionId: string; archived?: boolean }; reply: { session: Session | null } };
  /** Delete a session. It can be restored for a while. An image is deleted with its last session, and restored with it. */
  session_delete: { request: { sessionId: string }; reply: { sessionId: string; restorableUntil: number } };
  /** Restore a deleted session. */
  session_restore: { request: { sessionId: string }; reply: { session: SessionRecord | null } };
  /** Mark a session as read. */
  session_mark_read: { request: { sessionId: string; cursor?: string | null; messageId?: string | null; device?: string | null }; reply: { sessionId: string; unread: number; session: SessionRecord } };
  /** Release a quarantined session, so that it accepts messages again. */
  session_release: { request: { sessionId: string }; reply: { session: Session | null } };
  /** Start the agent of a session. */
  session_resume: { request: { sessionId: string }; reply: { imageId: string; agentId: string; reused: boolean; sessionId?: string } };
  /** Get the session of an image that a client knows by a name of its own; the first time, create it. The name is stored in the commit that creates the session, so that of two requests at once one creates it. Fails with `imageNotFound`. */
  session_open: { request: { imageId: string; gateway?: string; external?: string | null; title?: string | null; messages?: SeedMessage[]; archived?: boolean }; reply: { session: Session; created: boolean } };
  /** List the files of a session in the order of their paths. */
  file_list: { request: { sessionId: string; under?: string; cursor?: string | null; limit?: number }; reply: { files: SessionFile[]; nextCursor?: string } };
  /** Show the record of a file. Fails with `fileNotFound`. */
  file_get: { request: { sessionId: string; path: string }; reply: { file: SessionFile } };
  /** List the states that a file of a session had, the newest first. One for each message that changed the file; changes that were rewound are left out. */
  file_versions: { request: { sessionId: string; path: string; limit?: number }; reply: { path: string; versions: FileVersion[] } };
  /** Download a file of a session, of up to 4 MiB. A larger one is downloaded over HTTP. Fails with `fileNotFound`, `invalidInput`. */
  file_read: { request: { sessionId: string; path: string; digest?: string | null }; reply: { file: SessionFile; data: string } };
  /** Write a file of a session, of up to 4 MiB: it is created, or replaced. A larger one is uploaded over HTTP. Fails with `workspaceFull`, `filePathInvalid`, `quotaExceeded`, `invalidInput`. */
  file_write: { request: { sessionId: string; path: string; data: string; executable?: boolean }; reply: { file: SessionFile } };
  /** Delete a file of a session. With `If-Match` only if it has the bytes of that ETag. */
  file_delete: { request: { sessionId: string; path: string }; reply: { path: string } };
  /** Fork a session. The new session starts with the messages of this one, up to and including a message, which may also be a rewound one. */
  session_fork: { request: { sessionId: string; messageId?: string | null; imageId?: string | null; title?: string | null }; reply: { session: SessionRecord | null } };
  /** Remove the end of a session. The messages leave the history and the search, and are kept. */
  session_rewind: { request: { sessionId: string; messageId?: string | null; before?: string | null; onBusy?: "interrupt" | "reject" }; reply: { sessionId: string; messageIds: string[]; rewindId?: string } };
  /** List the rewinds of a session, the latest first. `/messages?rewind=` reads the messages of one, and `fork` continues from one of them. */
  session_rewinds: { request: { sessionId: string }; reply: { sessionId: string; rewinds: Rewind[] } };
  /** Send a message to an agent. Its answer comes as events. */
  message_send: { request: { content: string | (TextPart | ImagePart | FilePart)[]; imageId?: string | null; agentId?: string | null; sessionId?: string | null; clientMessageId?: string | null; onBusy?: "interrupt" | "queue" | "reject"; onParked?: "queue" | "reject" | "supersede"; options?: TurnOptions | null; output?: OutputFormat | null }; reply: { agentId: string; imageId?: string; messageId?: string; turnId?: string; sessionId?: string; cursor?: string } };
  /** Replace a user's message. Later messages are removed from the history in the same commit and kept, and a turn begins. */
  message_edit: { request: { sessionId: string; messageId: string; content: string | (TextPart | ImagePart | FilePart)[]; clientMessageId?: string | null; onBusy?: "interrupt" | "reject"; options?: TurnOptions | null }; reply: { agentId: string; imageId?: string; messageId?: string; turnId?: string; sessionId?: string; cursor?: string } };
  /** Regenerate an answer. The old one is kept and can be viewed. */
  message_regenerate: { request: { sessionId: string; messageId?: string | null; clientMessageId?: string | null; onBusy?: "interrupt" | "reject"; options?: TurnOptions | null }; reply: { agentId: string; imageId?: string; messageId?: string; turnId?: string; sessionId?: string; cursor?: string } };
  /** Run an agent once, without a session to continue with. Its answer arrives as events; a waiting turn keeps its session until it has ended. */
  run_start: { request: { content: string | (TextPart | ImagePart | FilePart)[]; container?: string | null; options?: TurnOptions | null; output?: OutputFormat | null; agent?: string; keep?: boolean }; reply: { agentId: string; imageId?: string; messageId?: string; turnId?: string; sessionId?: string; cursor?: string } };
  /** Summarize older messages to free context. The newest exchanges are left out. This is a billed model call; the messages are not changed. */
  session_compact: { request: { sessionId: string }; reply: { sessionId: string; summary: Summary } };
  /** List the summaries of a session, the newest first. */
  session_summaries: { request: { sessionId: string }; reply: { sessionId: string; summaries: Summary[] } };
  /** Save a draft; with `ifUpdatedAt` only if it has not changed since. */
  session_draft: { request: { sessionId: string; text: string; device?: string | null; ifUpdatedAt?: number | null }; reply: { sessionId: string; saved: boolean; draft?: Draft } };
  /** List your own drafts in a session, of all your devices. */
  session_drafts: { request: { sessionId: string }; reply: { sessionId: string; drafts: Draft[] } };
  /** List your own drafts of all sessions, each with its beginning. */
  session_draft_list: { request: { containerId?: string | null; limit?: number }; reply: { drafts: DraftListed[] } };
  /** Create a schedule: an agent receives a message at the times of `cron`. `cron` has five fields, or is a name such as `@daily`; `zone` is a name of the IANA database. Turns are billed to you. A call that needs an approval is denied, unless `onAsk` is `wait`. */
  schedule_create: { request: { agent: string; message: string; name?: string | null; containerId?: string | null; sessionId?: string | null; onAsk?: "deny" | "wait"; budget?: TurnBudget | null; runsPerDay?: number | null; cron: string; zone?: string; sessionMode?: "new" | "same"; missed?: "all" | "once" | "skip"; catchUp?: number; catchUpSeconds?: number; overlap?: "queue" | "skip"; jitterSeconds?: number }; reply: { schedule: ScheduleView } };
  /** List schedules, oldest first. */
  schedule_list: { request: { containerId?: string | null; cursor?: string | null; limit?: number }; reply: { schedules: ScheduleView[]; nextCursor?: string } };
  /** Show a schedule. */
  schedule_get: { request: { scheduleId: string }; reply: { schedule: ScheduleView } };
  /** Update, disable or enable a schedule. */
  schedule_update: { request: { name?: string | null; message?: string | null; sessionMode?: "new" | "same" | null; onAsk?: "deny" | "wait" | null; budget?: TurnBudget | null; runsPerDay?: number | null; enabled?: boolean | null; scheduleId: string; cron?: string | null; zone?: string | null; missed?: "all" | "once" | "skip" | null; catchUp?: number | null; catchUpSeconds?: number | null; overlap?: "queue" | "skip" | null; jitterSeconds?: number | null }; reply: { schedule: ScheduleView } };
  /** Delete a schedule and the list of its runs. Sessions and turns stay. */
  schedule_delete: { request: { scheduleId: string }; reply: {} };
  /** List the last runs of a schedule, and the times at which it did not run, newest first. */
  schedule_runs: { request: { scheduleId: string }; reply: { runs: RunRecord[] } };
  /** Run a schedule once now, in addition to its times. */
  schedule_run: { request: { scheduleId: string }; reply: { sessionId: string; turnId: string; isNew: boolean } };
  /** Create a trigger: another program starts turns of an agent. The agent receives your message, followed by the body of the request as data. The secret is shown once; requests are signed with it. */
  trigger_create: { request: { agent: string; message: string; name?: string | null; containerId?: string | null; sessionId?: string | null; onAsk?: "deny" | "wait"; budget?: TurnBudget | null; runsPerDay?: number | null; sessionMode?: "new" | "same" | null }; reply: { trigger: TriggerView } };
  /** List triggers, oldest first. */
  trigger_list: { request: { containerId?: string | null; cursor?: string | null; limit?: number }; reply: { triggers: TriggerView[]; nextCursor?: string } };
  /** Show a trigger. */
  trigger_get: { request: { triggerId: string }; reply: { trigger: TriggerView } };
  /** Update, disable or enable a trigger. */
  trigger_update: { request: { name?: string | null; message?: string | null; sessionMode?: "new" | "same" | null; onAsk?: "deny" | "wait" | null; budget?: TurnBudget | null; runsPerDay?: number | null; enabled?: boolean | null; triggerId: string }; reply: { trigger: TriggerView } };
  /** Replace the secret of a trigger. The new one is shown once. For 24 hours requests may be signed with either. */
  trigger_rotate: { request: { triggerId: string }; reply: { trigger: TriggerView } };
  /** Delete a trigger and the list of its runs. Sessions and turns stay. */
  trigger_delete: { request: { triggerId: string }; reply: {} };
  /** List the last runs of a trigger, newest first. */
  trigger_runs: { request: { triggerId: string }; reply: { runs: RunRecord[] } };
}

/** The fields and the content of every operation over HTTP, by name. */
export interface HttpOperations {
  /** Create a key. */
  "key.create": { request: { name: string; userId?: string | null; permissions?: string[] | null; containers?: string[] | null; expiresAt?: number | null }; reply: KeyView };
  /** List keys. Newest first, including revoked keys. */
  "key.list": { request: { cursor?: string | null; limit?: number; userId?: string | null }; reply: KeyViewPage };
  /** Show a key. */
  "key.get": { request: { keyId: string }; reply: KeyView };
  /** Revoke a key. */
  "key.revoke": { request: { keyId: string }; reply: undefined };
  /** Replace a key by a new one with the same rights. */
  "key.rotate": { request: { keyId: string; graceSeconds?: number }; reply: KeyView };
  /** Show which identity and permissions your key has. */
  "auth.whoami": { request: {}; reply: Whoami };
  /** Create a token for one WebSocket. It opens one WebSocket within a minute, so it may appear in a URL: it is useless to a later reader. */
  "auth.ws_token": { request: {}; reply: SocketToken };
  /** Sign a browser in with an API key. The response sets a cookie, which stands for the key until it is revoked or expires, or the browser is signed out or not used for 14 days. A request with the cookie that writes must come from a page of this server. */
  "auth.sign_in": { request: { key?: string | null; keep?: boolean }; reply: BrowserSessionView };
  /** Sign out this browser. */
  "auth.sign_out": { request: {}; reply: undefined };
  /** List your signed-in browsers, the last used first. */
  "auth.sessions": { request: { cursor?: string | null; limit?: number }; reply: BrowserSessionViewPage };
  /** Sign out one of your browsers. Its sockets are closed at once. */
  "auth.session_end": { request: { browserSessionId: string }; reply: undefined };
  /** Start the sign-in at the identity provider. The response sets a cookie, which the callback requires, and contains the address of the provider. Both are valid for ten minutes. */
  "auth.oidc_start": { request: { next?: string; keep?: boolean; invitation?: string | null }; reply: OidcAddress };
  /** Finish the sign-in after the identity provider. Redirects to the page where the sign-in started, with the cookie of a browser session; or to `/login?problem=` with the reason. A state can be used once. */
  "auth.oidc_callback": { request: { state?: string; code?: string; iss?: string | null; error?: string | null; error_description?: string | null; session_state?: string | null; scope?: string | null; authuser?: string | null; prompt?: string | null; hd?: string | null }; reply: undefined };
  /** Show your preferences for the console. They are the same on every device. A key without a user has its own. */
  "preferences.get": { request: {}; reply: Preferences };
  /** Replace your preferences for the console. */
  "preferences.put": { request: { language?: "en" | "zh" | null; theme?: "dark" | "light" | null; sendKey?: "enter" | "modifier" | null; density?: "dense" | "regular" | null; shortcuts?: "off" | "on" | null }; reply: Preferences };
  /** Create an invitation. The link creates one user with the role, who gets a key or signs in at the identity provider. It is shown once. */
  "invitation.create": { request: { role?: "admin" | "member" | "owner" | "viewer"; externalId?: string | null; displayName?: string | null; days?: number }; reply: InvitationView };
  /** List invitations. Newest first, including those that were accepted, were revoked or have expired. */
  "invitation.list": { request: { cursor?: string | null; limit?: number }; reply: InvitationViewPage };
  /** Revoke an invitation. A user it has created stays. */
  "invitation.revoke": { request: { invitationId: string }; reply: undefined };
  /** Show an invitation to the person who has its link. */
  "invitation.show": { request: { key?: string }; reply: InvitationShown };
  /** Accept an invitation. Creates the user and their first key, which is shown once. */
  "invitation.accept": { request: { key?: string; externalId?: string | null }; reply: KeyView };
  /** Create a tenant. */
  "tenant.create": { request: { slug: string; name: string; description?: string | null; plan?: string | null }; reply: TenantView };
  /** List tenants by slug. */
  "tenant.list": { request: { cursor?: string | null; limit?: number }; reply: TenantViewPage };
  /** Show a tenant. */
  "tenant.get": { request: { tenant: string }; reply: TenantView };
  /** Change a tenant. */
  "tenant.update": { request: { tenant: string; slug?: string; name?: string; description?: string | null; status?: "active" | "suspended"; plan?: string | null }; reply: TenantView };
  /** Delete a tenant. Everything that it owns is deleted, except its ledger, its audit log, and versions of resources that others are locked to. This cannot be undone. With `dryRun` the response counts the data that would be deleted. */
  "tenant.delete": { request: { tenant: string; dryRun?: boolean }; reply: OwnedRecord | undefined };
  /** Create a user. */
  "user.create": { request: { externalId: string; displayName?: string | null; role?: "admin" | "member" | "owner" | "viewer" }; reply: UserView };
  /** List users by external id. */
  "user.list": { request: { cursor?: string | null; limit?: number }; reply: UserViewPage };
  /** Show a user. */
  "user.get": { request: { userId: string }; reply: UserView };
  /** Change a user. */
  "user.update": { request: { userId: string; displayName?: string | null; role?: "admin" | "member" | "owner" | "viewer"; status?: "active" | "suspended" }; reply: UserView };
  /** Delete a user. Their keys and limits are deleted, and the contents of the containers that no other user is bound to. This cannot be undone. With `dryRun` the response counts the data that would be deleted. */
  "user.delete": { request: { userId: string; dryRun?: boolean }; reply: OwnedRecord | undefined };
  /** List the containers that a user may use. In the order in which they were bound; the first was created with the user. */
  "user.list_containers": { request: { userId: string }; reply: BoundViewPage };
  /** Give a user access to a container. */
  "user.bind": { request: { userId: string; containerId: string }; reply: undefined };
  /** Revoke a user's access to a container. Takes effect at once: their sockets are closed. */
  "user.unbind": { request: { userId: string; containerId: string }; reply: undefined };
  /** List the containers that you may use, oldest first. */
  "container.browse": { request: { cursor?: string | null; limit?: number }; reply: ContainerNameViewPage };
  /** Show a container, and count its data. */
  "container.show": { request: { containerId: string }; reply: ContainerView };
  /** Delete a container. Everything in it is deleted, which cannot be undone; its turns are stopped first. Emits `containerDeleted`. A user may delete a container that no other user is bound to. With `dryRun` nothing is deleted, and the reply counts the data that would be. Until the contents are erased, creating a container of the same id fails with `containerErasing`. */
  "container.delete": { request: { containerId: string; dryRun?: boolean }; reply: OwnedRecord | undefined };
  /** List unfinished erasures, oldest first. The operator sees those of the whole server, including deleted tenants. A finished erasure leaves the list. */
  "erasure.list": { request: {}; reply: ErasureViewPage };
  /** List quotas and how much of them is used. Every metric of the tenant with the effective limit, which may be its plan's; then the limits of each user and of single users. Without `tenants:admin` you see the limits that apply to you. A key for some containers that has no user sees no limits of users. */
  "quota.list": { request: { userId?: string | null }; reply: QuotaViewPage };
  /** Set a quota. */
  "quota.put": { request: { metric: string; hard?: number | null; soft?: number | null; userId?: string | null; eachUser?: boolean }; reply: QuotaView };
  /** Delete a quota. */
  "quota.delete": { request: { metric: string; userId?: string | null; eachUser?: boolean }; reply: undefined };
  /** Summarize usage. Without `tenants:admin` you see your own usage; with a key for some containers, only the usage there. */
  "usage.report": { request: { by?: string; since?: string | null; until?: string | null; format?: "csv" | "json" | null }; reply: Report | Response };
  /** Show usage over time. One row for each hour, day or month (UTC), without gaps. You see the same usage as in `/v1/usage`. */
  "usage.series": { request: { by?: "day" | "hour" | "month"; since?: string | null; until?: string | null }; reply: Series };
  /** List the entries of the ledger, in the order they were written, or the newest first. */
  "usage.entries": { request: { cursor?: string | null; limit?: number; order?: "newest" | "oldest"; since?: string | null; until?: string | null }; reply: EntryViewPage };
  /** Book model calls that were made at the edge. Each is entered once, at the prices of this server, and counts against quotas and wallet. Sending it again changes nothing. */
  "usage.book": { request: { entries: CallEntry[] }; reply: Booked };
  /** Compare the ledger with a provider's bill. The body is the provider's usage export, CSV or JSON: a row has a day, a model and token counts. An operator who names no tenant compares the ledgers of all tenants, since the bill covers all of them. */
  "usage.reconcile": { request: { driver?: string | null }; reply: Reconciliation };
  /** Estimate the monthly cost of serving users. Computed from the coefficients and the example prices of this release, without the tokens of models. */
  "cost.estimate": { request: { users?: number; turns?: number; seconds?: number; deltas?: number; textBytes?: number; connected?: number; peak?: number; tools?: number; toolSeconds?: number; visits?: number; months?: number; shape?: "cluster" | "edge" | "one-node" }; reply: CostReport };
  /** Show the margin of each tenant, and the money saved by the choice of cheap sandboxes. */
  "cost.tenants": { request: { cursor?: string | null; limit?: number; since?: string | null; until?: string | null }; reply: TenantMarginPage };
  /** Show the wallet. */
  "wallet.get": { request: {}; reply: WalletView };
  /** List credits and the usage of each day, newest first. */
  "wallet.statement": { request: { cursor?: string | null; limit?: number; since?: string | null; until?: string | null }; reply: LinePage };
  /** Add a credit; a negative amount withdraws money. */
  "wallet.credit": { request: { reference: string; amountNanoUsd?: number | null; amountUsd?: string | null; note?: string | null }; reply: CreditView };
  /** List the names of secrets. */
  "secret.list": { request: { cursor?: string | null; limit?: number }; reply: SecretViewPage };
  /** Store a secret. */
  "secret.put": { request: { name: string; value: string }; reply: undefined };
  /** Delete a secret, and its grants. */
  "secret.delete": { request: { name: string }; reply: undefined };
  /** List the tools that may use secrets. */
  "secret.grants": { request: { cursor?: string | null; limit?: number; secret?: string | null }; reply: GrantViewPage };
  /** Grant a tool access to a secret. In a header or the query of its requests to these hosts, or as a variable of its code. Another grant of the same secret to the same tool for the same use replaces it. */
  "secret.grant": { request: { secret: string; tool: string; as: "env" | "header" | "query"; hosts?: string[] }; reply: GrantView };
  /** Revoke a tool's access to a secret, from its next call on. */
  "secret.revoke": { request: { secret: string; tool: string; as?: "env" | "header" | "query" | null }; reply: undefined };
  /** List the platforms that channels can connect to, with the settings of each. */
  "channel.kinds": { request: {}; reply: ChannelKinds };
  /** List channels by name, with their status. */
  "channel.list": { request: { cursor?: string | null; limit?: number }; reply: ChannelViewPage };
  /** Show a channel and its status. */
  "channel.get": { request: { channelId: string }; reply: ChannelView };
  /** Connect a bot of a chat platform to an agent. The channel gets its own key, which is never shown, with permission to use agents in the containers of its senders. */
  "channel.create": { request: { name: string; kind: string; agent: string; settings?: Record<string, string>; messagesPerMinute?: number; enabled?: boolean }; reply: ChannelView };
  /** Change a channel. It connects again. With another agent, every chat begins a new session. */
  "channel.update": { request: { channelId: string; name?: string | null; agent?: string | null; settings?: Record<string, string> | null; messagesPerMinute?: number | null }; reply: ChannelView };
  /** Connect a channel that was disabled. Pending answers are delivered. */
  "channel.enable": { request: { channelId: string }; reply: ChannelView };
  /** Disconnect a channel. Its turns continue; their answers wait. */
  "channel.disable": { request: { channelId: string }; reply: ChannelView };
  /** Delete a channel and revoke its key. The sessions of its senders stay. */
  "channel.delete": { request: { channelId: string }; reply: undefined };
  /** Run code in a sandbox. The code runs in its own jail, which is removed before the reply is sent. Its time counts towards the quota of sandbox seconds. */
  "sandbox.run": { request: { engine?: "command" | "javascript" | "python" | "python-subset" | "shell" | "shell-subset" | null; code?: string; script?: boolean; argv?: string[]; input?: Record<string, unknown> | null; stdin?: string; env?: Record<string, string>; files?: Record<string, string | JobFile>; executable?: string[]; inputs?: Record<string, string | JobFile>; skills?: Record<string, string | JobFile>; limits?: SandboxLimits; sandbox?: string | null }; reply: SandboxOutcome };
  /** List the tiers of this server, the weakest first, with the engines and walls of each. The first request tries every wall of the machine. */
  "sandbox.tiers": { request: {}; reply: TiersFound };
  /** Show the effective settings, without secrets. */
  "config.show": { request: { view?: string | null }; reply: ConfigView };
  /** Change settings: all of them, or none if one is invalid. */
  "config.change": { request: { note?: string | null; dryRun?: boolean; revision?: number | null; changes?: Record<string, unknown> | null; config?: Record<string, unknown> | null; tenantId?: unknown; pendingRestart?: unknown; settings?: unknown }; reply: OutcomeView };
  /** List the changes of settings, newest first. */
  "config.history": { request: { cursor?: string | null; limit?: number }; reply: ChangeViewPage };
  /** Show the differences between two revisions. */
  "config.diff": { request: { from: number; to?: number | null }; reply: DiffView };
  /** Restore the settings of an earlier revision, as a new change. */
  "config.rollback": { request: { note?: string | null; dryRun?: boolean; revision?: number | null; to: number }; reply: OutcomeView };
  /** Show the JSON Schema of a configuration file. */
  "config.schema": { request: {}; reply: Record<string, unknown> };
  /** Explain a setting: effective value, all sources, precedence. A group shows all settings below it. */
  "config.get": { request: { key: string }; reply: SettingView | GroupView };
  /** Change one setting. A `value` of null removes the override. */
  "config.put": { request: { key: string; note?: string | null; dryRun?: boolean; revision?: number | null; value: unknown; effective?: unknown; source?: unknown; why?: unknown; layer?: unknown; place?: unknown; actor?: unknown; at?: unknown; default?: unknown; type?: unknown; doc?: unknown; applies?: unknown; tenant?: unknown; secret?: unknown; variable?: unknown; restartPending?: unknown; layers?: unknown }; reply: OutcomeView };
  /** List the audit log, newest entries first. */
  "audit.list": { request: { cursor?: string | null; limit?: number; action?: string | null }; reply: AuditViewPage };
  /** List the definitions that images can be built from. In the order of `definitionList`. */
  "definition.browse": { request: { cursor?: string | null; limit?: number }; reply: DefinitionsPage };
  /** Show a definition. `definitionName` may also be the URI of an agent. `definition` is `null` when there is none. */
  "definition.get": { request: { definitionName: string }; reply: DefinitionRecord };
  /** List the models that an agent can have. The default first; then those of the server's providers, those that the operator has a price for, and the fallbacks. A provider may have more than it lists: any `<provider>/<model>` can be tried. */
  "catalog.models": { request: { cursor?: string | null; limit?: number }; reply: ModelViewPage };
  /** List the built-in tools that an agent can name. */
  "catalog.tools": { request: {}; reply: BuiltinTools };
  /** Build an image. From the server's default definition, or from the one that `config.definition` names. */
  "image.add": { request: { container?: string | null; config?: ImageConfig | null }; reply: ImageView };
  /** Change an image. Changes the given fields that are not `null`, and resets those in `clear`. All but `name` and `description` go into the image's config, and the image is rebuilt; its agents use the new build from their next turn on. Other references keep their versions. Emits `imageUpdated`. Fails with `imageNotFound`, and as `imageCreate` does. */
  "image.update": { request: { imageId: string; updates?: ImageUpdates }; reply: ImageView };
  /** Resolve the references of an image again and rebuild it. References with an exact version keep it. `changes` lists references that resolve to another version now; without any, nothing is built. With `dryRun` the changes are only reported. Emits `imageUpdated`. Fails with `imageNotFound`, and as `imageCreate` does. */
  "image.upgrade": { request: { imageId: string; dryRun?: boolean }; reply: UpgradeView };
  /** Save an image as one file. With its definition, its snapshot, and every resource that it was built from; without secrets. The same image always gives the same bytes. Needs `resources:read` if the image has resources. */
  "image.save": { request: { imageId: string }; reply: Response };
  /** Build the image of a file. Its resources become yours, and the image is built from them with every check of a build. An altered file is refused, and so is one whose image would behave differently on this server. Needs `resources:write` if the image has resources. */
  "image.load": { request: { container?: string | null; name?: string | null; digest?: string | null; onConflict?: "fail" | "newVersion" }; reply: ImageView };
  /** List the tags of an image. */
  "image.tags": { request: { imageId: string }; reply: ImageTagsReply };
  /** Set a tag of an image. The tag moves if it pointed to another image of the container. `image:<tag>` then names the image wherever the name of an agent is expected. A tag is deleted with the default session of its image. */
  "image.tag": { request: { imageId: string; tag: string }; reply: ImageTagsReply };
  /** Remove a tag of an image. */
  "image.untag": { request: { imageId: string; tag: string }; reply: undefined };
  /** Stop every agent of an image. A running turn ends as interrupted. Emits `sessionDestroyed` and `agentUnregistered` for each. Fails with `imageNotFound`. */
  "image.stop": { request: { imageId: string }; reply: ImageIdReply };
  /** List images. Of one container, or of every container that you may use: by the name of the container, the newest image first. `behind` counts the references that resolve to another version now. */
  "image.browse": { request: { cursor?: string | null; limit?: number; container?: string | null; tag?: string | null }; reply: ImagesPage };
  /** Show an image. `config` is the effective configuration of the image, `written` the one that was requested. Over a WebSocket `record` is `null` when there is no such image. Subscribes. */
  "image.get": { request: { imageId: string }; reply: ImageRecord };
  /** Delete an image. Its sessions and their messages are deleted with it. */
  "image.remove": { request: { imageId: string }; reply: undefined };
  /** Upload a file that messages can refer to. The body is the file, and Content-Type its media type. A file that the container already has is stored once (200). A file that no message refers to is deleted after a day. */
  "attachment.upload": { request: { container?: string | null; name?: string | null }; reply: AttachmentRecord };
  /** List the files of a container, the newest first. Files are uploaded over [HTTP](attachments.md). Fails with `containerForbidden`, `invalidInput`. */
  "attachment.list": { request: { container?: string | null; cursor?: string | null; limit?: number }; reply: AttachmentPage };
  /** Download a file by its reference or its digest. */
  "attachment.download": { request: { attachment: string; container?: string | null }; reply: Response | undefined };
  /** Delete a file to which no message refers. */
  "attachment.delete": { request: { attachment: string; container?: string | null }; reply: undefined };
  /** List the types of resources, with the JSON Schema of their content. */
  "resource.types": { request: {}; reply: TypesView };
  /** Register a resource. Registering an identical version again changes nothing (200 over HTTP). With `dryRun` everything is checked and nothing is stored. Fails with `resourceExists`, `resourceInvalid`, `resourceNotFound` for a reference, `resourceCycle`, `quotaExceeded`; `details.path` of the error names the invalid field of the content. */
  "resource.register": { request: { type: string; name: string; content: Record<string, unknown>; version?: string | null; description?: string | null; tags?: string[] | null; visibility?: "private" | "public" | null; schema?: Record<string, unknown> | null; dependencies?: Record<string, string> | null; tag?: string | null; dryRun?: boolean }; reply: RegisteredView };
  /** Search for resources. Your own and public ones; the best match first if there is a `q`, else by name. */
  "resource.list": { request: { type?: string | null; q?: string | null; tag?: string | null; owner?: string | null; visibility?: "private" | "public" | null; scope?: "all" | "own" | "public"; dependsOn?: string | null; limit?: number; cursor?: string | null }; reply: ResourcePage };
  /** Show a resource with the content of one version, by default the latest. */
  "resource.get": { request: { resourceId: string; version?: string | null }; reply: Response | ContentView | undefined };
  /** Publish a new version, or change the description of the resource. With `If-Match: "<digest>"` only if the latest version still has that digest. */
  "resource.update": { request: { resourceId: string; content?: Record<string, unknown> | null; schema?: Record<string, unknown> | null; dependencies?: Record<string, string> | null; version?: string | null; bump?: "major" | "minor" | "patch" | null; tag?: string | null; description?: string | null; tags?: string[] | null; visibility?: "private" | "public" | null; deprecated?: string | null; dryRun?: boolean }; reply: RegisteredView };
  /** Delete a resource. One that images or other resources refer to is kept, unless an administrator gives `force`: then it is hidden, and everything that is locked to it keeps working. */
  "resource.delete": { request: { resourceId: string; force?: boolean }; reply: undefined };
  /** Resolve a URI. A URI with an exact version or a digest always means the same, and the response may be cached. */
  "resource.resolve_uri": { request: { uri: string; args?: string | null; expand?: "closure" | "content" | "none"; lock?: string | null }; reply: Response | Resolved | undefined };
  /** Resolve one URI with long arguments, or several URIs. Of several, one that cannot be resolved has an `error`, and does not affect the others. */
  "resource.resolve_many": { request: { uri?: string | null; uris?: string[] | null; args?: Record<string, unknown> | null; expand?: "closure" | "content" | "none"; lock?: Pinned[] | null }; reply: Resolved | ResolvedMany };
  /** List the versions of a resource, also yanked ones. */
  "resource.versions": { request: { resourceId: string }; reply: VersionsView };
  /** Yank a version. From then on only references to its exact number resolve to it; locks keep working. */
  "resource.yank": { request: { resourceId: string; version: string }; reply: undefined };
  /** Yank a version, or restore it. */
  "resource.set_yanked": { request: { resourceId: string; version: string; yanked: boolean }; reply: VersionView };
  /** Read the tools of a set from its source again. If they have changed a new version is published with them; images that are locked to the old version keep it. */
  "resource.pin": { request: { resourceId: string; bump?: "major" | "minor" | "patch"; dryRun?: boolean }; reply: PinView };
  /** Set a tag of a version. */
  "resource.tag": { request: { resourceId: string; tag: string; version: string }; reply: undefined };
  /** Delete a tag. */
  "resource.untag": { request: { resourceId: string; tag: string }; reply: undefined };
  /** List the versions that a version is locked to. */
  "resource.dependencies": { request: { resourceId: string; version?: string | null; depth?: number }; reply: DependenciesView };
  /** List the dependents of a resource. */
  "resource.dependents": { request: { resourceId: string }; reply: DependentsView };
  /** Export a version as an archive. The same version always gives the same bytes. */
  "resource.export": { request: { resourceId: string; version?: string | null; deps?: boolean; documents?: boolean }; reply: Response };
  /** Import an exported archive. All of it, or nothing. Everything becomes yours; importing it again changes nothing. */
  "resource.import": { request: { onConflict?: "fail" | "newVersion" | "skip"; dryRun?: boolean }; reply: ImportView };
  /** Download a binary part of a version. */
  "resource.blob": { request: { resourceId: string; digest: string; version?: string | null }; reply: Response };
  /** Search the documents of a knowledge base. The first search in a version builds its index, which takes a while for many documents. */
  "resource.query": { request: { resourceId: string; q: string; k?: number | null; version?: string | null }; reply: FoundView };
  /** Open the range of a document that a citation names: exactly these characters. */
  "resource.passage": { request: { cite: string }; reply: PassageView };
  /** Call a tool once, outside a conversation. The input is validated, and rules, secrets, quotas and limits apply as in a conversation. The call never waits: if it needs an approval it is refused, unless `approve` is set and the caller may approve it. */
  "resource.invoke": { request: { resourceId: string; version?: string | null; tool?: string | null; input?: Record<string, unknown>; approve?: boolean }; reply: ToolInvocation };
  /** Create an empty collection. */
  "collection.create": { request: { name: string }; reply: CollectionView };
  /** List collections by name. */
  "collection.list": { request: { cursor?: string | null; limit?: number }; reply: CollectionViewPage };
  /** Show a collection. */
  "collection.get": { request: { collectionId: string }; reply: CollectionView };
  /** Delete a collection with all revisions. Searches in knowledge bases that refer to it then find nothing. */
  "collection.delete": { request: { collectionId: string }; reply: undefined };
  /** Delete older revisions, with the documents that only they contain. Knowledge bases that refer to one of them can no longer be searched. */
  "collection.forget": { request: { collectionId: string; before: number }; reply: CollectionView };
  /** List the documents of a collection by name, each with the progress of its indexing. */
  "collection.documents": { request: { collectionId: string; cursor?: string | null; limit?: number; revision?: number | null }; reply: DocumentViewPage };
  /** Add a document to a collection, or replace it: the body is its bytes. Creates a revision (201), unless the bytes are unchanged (200). The document is indexed in the background. */
  "collection.put_document": { request: { collectionId: string; document: string; title?: string | null }; reply: DocumentView };
  /** Delete a document from every revision of a collection. Searches in older revisions report that it was deleted; its text, passages and bytes are deleted. */
  "collection.delete_document": { request: { collectionId: string; document: string }; reply: undefined };
  /** Show the retention policy, and count the data it would delete now. Counts all expired messages, which takes time: call it before changing a policy, not periodically. */
  "retention.show": { request: { sessionDays?: number | null; archivedDays?: number | null; statelessDays?: number | null; rewoundDays?: number | null; messageDays?: number | null }; reply: RetentionView };
  /** List log entries, or follow the log. Newest first; a page may hold fewer than `limit` entries and still have a `nextCursor`. With `follow=true` the response does not end: new entries are sent as they come, each once, oldest first, as lines of JSON, or as server-sent events if `text/event-stream` is accepted. A stream begins with the newest `limit` entries, or with those after `after`. Only the operator sees entries of no tenant. In a cluster `nodes=all` lists the entries of all nodes, each with its `nodeId`; a stream is that of the node which is asked. */
  "log.list": { request: { cursor?: string | null; limit?: number; level?: "critical" | "debug" | "error" | "info" | "warning" | null; since?: string | null; until?: string | null; request?: string | null; turn?: string | null; session?: string | null; container?: string | null; event?: string | null; text?: string | null; follow?: boolean; after?: number | null; nodes?: string | null }; reply: LogEntries | Response };
  /** List errors by kind. Errors with the same code, event and place are one group, with their count and the first and the last time. The groups seen last come first. Only errors that the log still holds are counted. In a cluster `nodes=all` counts those of all nodes; without it only those of the requested node. */
  "error.list": { request: { since?: string | null; until?: string | null; limit?: number; nodes?: string | null }; reply: ErrorGroups };
  /** List the model providers and their health. In the order of the configuration, as your tenant's calls experience them. Only the operator sees their addresses, and the number of calls of all tenants. */
  "provider.list": { request: { cursor?: string | null; limit?: number }; reply: ProviderHealthPage };
  /** Show the metrics. JSON, or the Prometheus text format if it is accepted. A tenant sees its own numbers. In a cluster they are those of the requested node; with `nodes=all` the operator gets those of each node, and a tenant the sums of all. Let Prometheus scrape each node. */
  "metric.show": { request: { nodes?: string | null }; reply: ServerMetrics | ClusterMetrics | TenantMetrics | Response };
  /** Show the metrics in the Prometheus text format. */
  "metric.scrape": { request: {}; reply: Response };
  /** Show whether the server is healthy, and remedies if it is not. The status contains no data of tenants. Only the operator sees the address of a provider that fails. In a cluster `nodes=all` shows the status of each node, and the checks of all. */
  "metric.status": { request: { nodes?: string | null }; reply: ServerStatus };
  /** Show metrics over time: one sample a minute of the last 24 hours. Of the whole server, for its operator. In memory: a restart begins a new series. */
  "metric.series": { request: { since?: string | null }; reply: MetricSeries };
  /** List the nodes that share the database, with the number of sessions that each runs. For the operator. A server alone is listed as the only node. */
  "cluster.nodes": { request: {}; reply: ClusterNodes };
  /** Drain a node: it accepts no new work, finishes turns within a grace period, and hands the rest over. Returns when the drain has started; the node then ends on its own. Clients continue on other nodes. */
  "cluster.drain": { request: { nodeId: string; graceSeconds?: number | null }; reply: DrainedNode };
  /** List turns. Of a session, a container, or all that you may use: the newest first, or the slowest. A turn without an outcome is running, or parked: its calls wait for an answer. */
  "turn.list": { request: { cursor?: string | null; limit?: number; session?: string | null; container?: string | null; order?: "newest" | "slowest"; outcome?: "completed" | "failed" | "interrupted" | "parked" | "running" | null; since?: string | null; until?: string | null }; reply: TurnRowPage };
  /** Show the timeline of a turn: its time, usage and cost. Also while it runs. Usage and cost are known even when its events are no longer kept. */
  "turn.show": { request: { turnId: string }; reply: Timeline };
  /** Explain a tool call: the rule that decided about it, and the verdict on each tier. Fails with `notFound` until the call has its result, and for calls of older releases. */
  "tool.explain": { request: { turnId: string; callId: string }; reply: ToolExplanation };
  /** List the events of a turn, or follow it. As they were sent, in their order, with the same text. No model is called. With `follow=true` the response is server-sent events that continue until the turn has ended; each event's `id` is its cursor. */
  "turn.events": { request: { turnId: string; cursor?: string | null; limit?: number; follow?: boolean; after?: number | null }; reply: RawPage | Response };
  /** Rate the answer of a turn, with an optional note. Replaces your earlier rating. */
  "feedback.give": { request: { turnId: string; rating: "down" | "up"; note?: string | null }; reply: Feedback };
  /** Delete your rating of a turn. */
  "feedback.withdraw": { request: { turnId: string }; reply: undefined };
  /** List ratings of answers, the newest first. With `tenants:admin`, those of all users of the tenant; your own otherwise. With a key for some containers, those there. */
  "feedback.list": { request: { cursor?: string | null; limit?: number; session?: string | null; rating?: "down" | "up" | null }; reply: FeedbackViewPage };
  /** Create a read-only link to a session as it is now, for all users of your tenant who may read sessions. */
  "share.create": { request: { sessionId: string; days?: number | null }; reply: Share };
  /** List the links to a session, the newest first. */
  "share.list": { request: { sessionId: string }; reply: ShareList };
  /** Revoke a link to a session. */
  "share.end": { request: { shareId: string }; reply: undefined };
  /** Read a shared session: its questions and answers when the link was created. */
  "share.read": { request: { shareId: string; cursor?: string | null; limit?: number }; reply: SharedPage };
  /** List the memories of a container, the newest first. Proposed memories are included: no model receives them before a person accepts them with `memoryPut`. */
  "memory.list": { request: { containerId: string }; reply: MemoryPage };
  /** Add a memory, and the container if there is none. A pinned memory is in every prompt; of the others first those that match the question, then the newest. */
  "memory.add": { request: { containerId: string; text: string; pinned?: boolean }; reply: Memory };
  /** Change a memory, accept a proposed one, or add one under your own id. From then on, rewinding the conversation that it comes from does not remove it. */
  "memory.put": { request: { containerId: string; memoryId: string; text: string; pinned?: boolean }; reply: Memory };
  /** Delete a memory. */
  "memory.delete": { request: { containerId: string; memoryId: string }; reply: MemoryDeleteReply };
  /** List waiting tool calls, the oldest first. Of a session, a container, or all that you may use. */
  "tool.waits": { request: { cursor?: string | null; limit?: number; container?: string | null; session?: string | null; state?: "answered" | "open" | null }; reply: WaitPage };
  /** Show a tool call that waits: the tool, its input, who may answer, and until when. */
  "tool.wait": { request: { waitId: string }; reply: WaitView };
  /** Answer a waiting tool call: approve, edit or deny it, or give its result. The first answer counts. The same answer again has the same reply. */
  "tool.answer": { request: { waitId: string; fingerprint: string; decision: "answer" | "approve" | "deny" | "edit"; input?: Record<string, unknown> | null; result?: unknown; reason?: string | null; remember?: "image" | "session" | null }; reply: ToolAnswerReply };
  /** Create a one-use link that approves or denies a tool call. The holder of the link decides in your name, as long as you may answer yourself. Opening the link only shows the call; its form decides. Needs `sessions:read`, too. */
  "tool.link": { request: { waitId: string; fingerprint: string; expiresIn?: number }; reply: WaitLinkReply };
  /** List the MCP servers on which AgentVM acts for you. No token is shown. */
  "mcp.connections": { request: { user?: string | null }; reply: ConnectionsView };
  /** Disconnect from an MCP server. Its tokens are deleted, and revoked if the server supports that. The next call asks for consent again. */
  "mcp.disconnect": { request: { server: string; user?: string | null }; reply: undefined };
  /** List sessions. Of one container, or of every container that you may use: pinned ones first, then by the time of the last message. */
  "session.browse": { request: { container?: string | null; image?: string | null; archived?: boolean | "all" | "false" | "true"; pinned?: boolean | null; since?: number | string | null; until?: number | string | null; title?: string | null; forkedFrom?: string | null; deleted?: boolean; device?: string | null; cursor?: string | null; limit?: number }; reply: SessionsPage };
  /** Search messages and titles. The best match first. Every word must be in a message, or in a title; a word of three letters or more also matches the beginning of a longer one. */
  "session.search": { request: { q: string; container?: string | null; image?: string | null; session?: string | null; role?: "assistant" | "tool" | "user" | null; tool?: string | null; since?: number | string | null; until?: number | string | null; cursor?: string | null; limit?: number }; reply: FoundPage };
  /** Read the messages of a session, from either end, or around one of them. */
  "session.history": { request: { sessionId: string; order?: "newest" | "oldest"; cursor?: string | null; around?: string | null; rewind?: string | null; follow?: boolean; turns?: boolean; limit?: number }; reply: MessagesPage };
  /** Show a session. */
  "session.get": { request: { sessionId: string; device?: string | null }; reply: SessionRecord };
  /** Rename, pin or archive a session. */
  "session.update": { request: { sessionId: string; title?: string | null; pinned?: boolean | null; archived?: boolean | null }; reply: SessionRecord };
  /** Delete a session. It can be restored for a while. An image is deleted with its last session, and restored with it. */
  "session.delete": { request: { sessionId: string }; reply: Deleted };
  /** Restore a deleted session. */
  "session.restore": { request: { sessionId: string }; reply: SessionRecord };
  /** Mark a session as read. */
  "session.mark_read": { request: { sessionId: string; cursor?: string | null; messageId?: string | null; device?: string | null }; reply: SessionRecord };
  /** List the files of a session in the order of their paths. */
  "file.list": { request: { sessionId: string; under?: string; cursor?: string | null; limit?: number }; reply: SessionFilesPage };
  /** List the states that a file of a session had, the newest first. One for each message that changed the file; changes that were rewound are left out. */
  "file.versions": { request: { sessionId: string; path: string; limit?: number }; reply: FileVersionsView };
  /** Download a file of a session. */
  "file.download": { request: { sessionId: string; path: string; digest?: string | null }; reply: Response | undefined };
  /** Write a file of a session: the body is its bytes. The file is created (201) or replaced (200). With `If-Match` only if it has the bytes of that ETag, with `If-None-Match: *` only if there is none. Rewinding the session to before its current last message reverts the change. */
  "file.put": { request: { sessionId: string; path: string; executable?: boolean }; reply: SessionFile };
  /** Delete a file of a session. With `If-Match` only if it has the bytes of that ETag. */
  "file.delete": { request: { sessionId: string; path: string }; reply: FileDeleteReply };
  /** Download all files of a session as a ZIP. It is streamed. */
  "file.archive": { request: { sessionId: string }; reply: Response };
  /** Fork a session. The new session starts with the messages of this one, up to and including a message, which may also be a rewound one. */
  "session.fork": { request: { sessionId: string; messageId?: string | null; imageId?: string | null; title?: string | null }; reply: SessionRecord };
  /** Remove the end of a session. The messages leave the history and the search, and are kept. */
  "session.rewind": { request: { sessionId: string; messageId?: string | null; before?: string | null; onBusy?: "interrupt" | "reject" }; reply: Rewound };
  /** List the rewinds of a session, the latest first. `/messages?rewind=` reads the messages of one, and `fork` continues from one of them. */
  "session.rewinds": { request: { sessionId: string }; reply: RewindPage };
  /** Replace a user's message. Later messages are removed from the history in the same commit and kept, and a turn begins. */
  "message.edit": { request: { sessionId: string; messageId: string; content: string | (TextPart | ImagePart | FilePart)[]; clientMessageId?: string | null; onBusy?: "interrupt" | "reject"; options?: TurnOptions | null }; reply: Spoken };
  /** Regenerate an answer. The old one is kept and can be viewed. */
  "message.regenerate": { request: { sessionId: string; messageId?: string | null; clientMessageId?: string | null; onBusy?: "interrupt" | "reject"; options?: TurnOptions | null }; reply: Spoken };
  /** Send a message and receive the answer. When the turn has ended, or as server-sent events with `stream`: each event's `id` is a cursor, with which `GET /v1/turns/{turn_id}/events?follow=true` continues after a lost connection. The turn continues if the client does not wait. */
  "message.ask": { request: { content: string | (TextPart | ImagePart | FilePart)[]; container?: string | null; options?: TurnOptions | null; output?: OutputFormat | null; agent?: string | null; sessionId?: string | null; thread?: string | null; clientMessageId?: string | null; onParked?: "queue" | "reject" | "supersede"; stream?: boolean; wait?: boolean }; reply: MessageAnswer | Response };
  /** Run an agent once and receive the answer. When the turn has ended, or as server-sent events with `stream`. Only its ledger entry is kept, unless `keep` is set. */
  "run.ask": { request: { content: string | (TextPart | ImagePart | FilePart)[]; container?: string | null; options?: TurnOptions | null; output?: OutputFormat | null; agent?: string; keep?: boolean; stream?: boolean }; reply: MessageAnswer | Response };
  /** Summarize older messages to free context. The newest exchanges are left out. This is a billed model call; the messages are not changed. */
  "session.compact": { request: { sessionId: string }; reply: Summary };
  /** List the summaries of a session, the newest first. */
  "session.summaries": { request: { sessionId: string }; reply: SummaryPage };
  /** Save a draft of a message in a session. */
  "draft.put": { request: { sessionId: string; text: string; device?: string | null; ifUpdatedAt?: number | null }; reply: DraftView };
  /** Delete a draft. */
  "draft.delete": { request: { sessionId: string; device?: string | null }; reply: undefined };
  /** List your own drafts in a session, of all your devices. */
  "session.drafts": { request: { sessionId: string }; reply: DraftPage };
  /** List your own drafts of all sessions, each with its beginning. */
  "session.draft_list": { request: { container?: string | null; limit?: number }; reply: DraftListedPage };
  /** Export sessions: one, those of a container or of a user, or all. As an archive that can be imported elsewhere, or as a page for reading. It is streamed. The same sessions give the same bytes. */
  "transfer.export": { request: { session?: string | null; container?: string | null; user?: string | null; format?: "archive" | "html" | "markdown" }; reply: Response };
  /** Import sessions: an archive of AgentVM, or an export of ChatGPT, Claude or Open WebUI. All of it, or nothing; existing sessions are not imported again. Ids are kept if they are free; otherwise they are replaced, and the response lists them. */
  "transfer.import": { request: { container?: string | null; from?: "archive" | "auto" | "chatgpt" | "claude" | "openwebui"; dryRun?: boolean }; reply: ImportReport };
  /** Create a webhook. The secret is shown once; receivers verify signatures with it. */
  "webhook.create": { request: { url: string; events: ("quota.warning" | "session.created" | "turn.completed" | "turn.failed" | "turn.interrupted" | "wait.created")[]; description?: string | null }; reply: WebhookView };
  /** List webhooks, oldest first. */
  "webhook.list": { request: { cursor?: string | null; limit?: number }; reply: WebhookViewPage };
  /** Show a webhook. */
  "webhook.get": { request: { webhookId: string }; reply: WebhookView };
  /** Update, disable or enable a webhook. */
  "webhook.update": { request: { webhookId: string; url?: string | null; events?: ("quota.warning" | "session.created" | "turn.completed" | "turn.failed" | "turn.interrupted" | "wait.created")[] | null; description?: string | null; enabled?: boolean | null }; reply: WebhookView };
  /** Delete a webhook and its deliveries. */
  "webhook.delete": { request: { webhookId: string }; reply: undefined };
  /** Replace the secret of a webhook. The new one is shown once. For 24 hours deliveries are signed with both. */
  "webhook.rotate": { request: { webhookId: string }; reply: WebhookView };
  /** Send a test event and show the result. Its type is `webhook.test`. It is sent regardless of the events of the webhook, and retried like any other. */
  "webhook.test": { request: { webhookId: string }; reply: DeliveryView };
  /** List the deliveries of a webhook, newest first. */
  "webhook.deliveries": { request: { webhookId: string; cursor?: string | null; limit?: number }; reply: DeliveryViewPage };
  /** Send a delivery again now, with the same `webhook-id`. */
  "webhook.redeliver": { request: { webhookId: string; number: string }; reply: DeliveryView };
  /** Create a schedule: an agent receives a message at the times of `cron`. `cron` has five fields, or is a name such as `@daily`; `zone` is a name of the IANA database. Turns are billed to you. A call that needs an approval is denied, unless `onAsk` is `wait`. */
  "schedule.create": { request: { agent: string; message: string; name?: string | null; container?: string | null; sessionId?: string | null; onAsk?: "deny" | "wait"; budget?: TurnBudget | null; runsPerDay?: number | null; cron: string; zone?: string; sessionMode?: "new" | "same"; missed?: "all" | "once" | "skip"; catchUp?: number; catchUpSeconds?: number; overlap?: "queue" | "skip"; jitterSeconds?: number }; reply: ScheduleView };
  /** List schedules, oldest first. */
  "schedule.list": { request: { container?: string | null; cursor?: string | null; limit?: number }; reply: SchedulePage };
  /** Show a schedule. */
  "schedule.get": { request: { scheduleId: string }; reply: ScheduleView };
  /** Update, disable or enable a schedule. */
  "schedule.update": { request: { scheduleId: string; name?: string | null; message?: string | null; sessionMode?: "new" | "same" | null; onAsk?: "deny" | "wait" | null; budget?: TurnBudget | null; runsPerDay?: number | null; enabled?: boolean | null; cron?: string | null; zone?: string | null; missed?: "all" | "once" | "skip" | null; catchUp?: number | null; catchUpSeconds?: number | null; overlap?: "queue" | "skip" | null; jitterSeconds?: number | null }; reply: ScheduleView };
  /** Delete a schedule and the list of its runs. Sessions and turns stay. */
  "schedule.delete": { request: { scheduleId: string }; reply: NoFields };
  /** List the last runs of a schedule, and the times at which it did not run, newest first. */
  "schedule.runs": { request: { scheduleId: string }; reply: RunPage };
  /** Run a schedule once now, in addition to its times. */
  "schedule.run": { request: { scheduleId: string }; reply: StartedRun };
  /** Create a trigger: another program starts turns of an agent. The agent receives your message, followed by the body of the request as data. The secret is shown once; requests are signed with it. */
  "trigger.create": { request: { agent: string; message: string; name?: string | null; container?: string | null; sessionId?: string | null; onAsk?: "deny" | "wait"; budget?: TurnBudget | null; runsPerDay?: number | null; sessionMode?: "new" | "same" | null }; reply: TriggerView };
  /** List triggers, oldest first. */
  "trigger.list": { request: { container?: string | null; cursor?: string | null; limit?: number }; reply: TriggerPage };
  /** Show a trigger. */
  "trigger.get": { request: { triggerId: string }; reply: TriggerView };
  /** Update, disable or enable a trigger. */
  "trigger.update": { request: { triggerId: string; name?: string | null; message?: string | null; sessionMode?: "new" | "same" | null; onAsk?: "deny" | "wait" | null; budget?: TurnBudget | null; runsPerDay?: number | null; enabled?: boolean | null }; reply: TriggerView };
  /** Replace the secret of a trigger. The new one is shown once. For 24 hours requests may be signed with either. */
  "trigger.rotate": { request: { triggerId: string }; reply: TriggerView };
  /** Delete a trigger and the list of its runs. Sessions and turns stay. */
  "trigger.delete": { request: { triggerId: string }; reply: NoFields };
  /** List the last runs of a trigger, newest first. */
  "trigger.runs": { request: { triggerId: string }; reply: RunPage };
  /** Start a turn of a trigger's agent, with the body as data. Needs no key: the request is signed with the trigger's secret as Standard Webhooks has it, in the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`. The same `webhook-id` again is the same turn. The body is text of at most 256 KiB. */
  "trigger.fire": { request: { triggerId: string }; reply: StartedRun };
}

/** Every command of the socket, by noun. */
export interface CommandVerbs {
  container: {
    /** Create a container, if there is none. Emits `containerCreated` when the container is new. */
    create(request: Commands["container_create"]["request"]): Promise<Commands["container_create"]["reply"]>;
    /** Ask whether a container exists. `containerId` is absent when it does not. */
    get(request: Commands["container_get"]["request"]): Promise<Commands["container_get"]["reply"]>;
    /** List the containers that you may use, oldest first, page by page. */
    list(request?: Commands["container_list"]["request"]): Promise<Commands["container_list"]["reply"]>;
    /** Delete a container. Everything in it is deleted, which cannot be undone; its turns are stopped first. Emits `containerDeleted`. A user may delete a container that no other user is bound to. With `dryRun` nothing is deleted, and the reply counts the data that would be. Until the contents are erased, creating a container of the same id fails with `containerErasing`. */
    delete(request: Commands["container_delete"]["request"]): Promise<Commands["container_delete"]["reply"]>;
  };
  definition: {
    /** List the definitions that images can be built from. The server's own, those registered since it started, then the agents of the resource centre: the tenant's, then those that ship with the server, at most 1,000. Agents have a `uri` and need the permission `resources:read`. */
    list(request?: Commands["definition_list"]["request"]): Promise<Commands["definition_list"]["reply"]>;
    /** Show a definition. `definitionName` may also be the URI of an agent. `definition` is `null` when there is none. */
    get(request: Commands["definition_get"]["request"]): Promise<Commands["definition_get"]["reply"]>;
    /** Register a definition. The same one again changes nothing. Fails with `definitionConflict` for another one of that name, also when the tenant has an agent of that name, `driverNotFound`, `toolNotFound`. */
    register(request: Commands["definition_register"]["request"]): Promise<Commands["definition_register"]["reply"]>;
  };
  image: {
    /** Build an image. From the server's default definition, or from the one that `config.definition` names, and `config`, with a default session. Resolves every `resource://` URI. Creates the container if it is new. Subscribes. Emits `imageCreated`. Fails with `driverNotFound`, `toolNotFound`, `definitionNotFound`, `resourceNotFound`, `promptUnresolved`, `resourceTooDeep`, `permissionDenied`, and then creates nothing. */
    create(request: Commands["image_create"]["request"]): Promise<Commands["image_create"]["reply"]>;
    /** Build an image from a given definition; otherwise like `imageCreate`. */
    build(request: Commands["image_build"]["request"]): Promise<Commands["image_build"]["reply"]>;
    /** Change an image. Changes the given fields that are not `null`, and resets those in `clear`. All but `name` and `description` go into the image's config, and the image is rebuilt; its agents use the new build from their next turn on. Other references keep their versions. Emits `imageUpdated`. Fails with `imageNotFound`, and as `imageCreate` does. */
    update(request: Commands["image_update"]["request"]): Promise<Commands["image_update"]["reply"]>;
    /** Resolve the references of an image again and rebuild it. References with an exact version keep it. `changes` lists references that resolve to another version now; without any, nothing is built. With `dryRun` the changes are only reported. Emits `imageUpdated`. Fails with `imageNotFound`, and as `imageCreate` does. */
    upgrade(request: Commands["image_upgrade"]["request"]): Promise<Commands["image_upgrade"]["reply"]>;
    /** Get the image of an agent in a container; the first time, build it. One image for each agent and container. If the agent has changed since, by its definition or a reference without an exact version, the image is rebuilt, and its sessions continue with it. Fails with `definitionNotFound`, `resourceNotFound`, `imageNotFound`, and as `imageCreate` does. */
    open(request: Commands["image_open"]["request"]): Promise<Commands["image_open"]["reply"]>;
    /** Start the agent of an image's default session, or return the running one (`reused`). Subscribes. Emits `agentRegistered` for a new agent. Fails with `imageNotFound`, `shuttingDown`. */
    run(request: Commands["image_run"]["request"]): Promise<Commands["image_run"]["reply"]>;
    /** Stop every agent of an image. A running turn ends as interrupted. Emits `sessionDestroyed` and `agentUnregistered` for each. Fails with `imageNotFound`. */
    stop(request: Commands["image_stop"]["request"]): Promise<Commands["image_stop"]["reply"]>;
    /** List the images of a container, newest first. Without `containerId`, of the containers that this connection has worked with. Subscribes to their default sessions. */
    list(request?: Commands["image_list"]["request"]): Promise<Commands["image_list"]["reply"]>;
    /** Show an image. `config` is the effective configuration of the image, `written` the one that was requested. Over a WebSocket `record` is `null` when there is no such image. Subscribes. */
    get(request: Commands["image_get"]["request"]): Promise<Commands["image_get"]["reply"]>;
    /** Stop the agents of an image, then delete it with its sessions and messages. Deleting an image that does not exist succeeds. Emits `imageDeleted`. */
    delete(request: Commands["image_delete"]["request"]): Promise<Commands["image_delete"]["reply"]>;
    /** Read the newest messages of an image's default session, oldest first. Subscribes. Fails with `imageNotFound`. */
    messages(request: Commands["image_messages"]["request"]): Promise<Commands["image_messages"]["reply"]>;
  };
  attachment: {
    /** List the files of a container, the newest first. Files are uploaded over [HTTP](attachments.md). Fails with `containerForbidden`, `invalidInput`. */
    list(request?: Commands["attachment_list"]["request"]): Promise<Commands["attachment_list"]["reply"]>;
    /** Show the record of a file. Fails with `attachmentNotFound`, also for one that only another container has, and `containerForbidden`. */
    get(request: Commands["attachment_get"]["request"]): Promise<Commands["attachment_get"]["reply"]>;
  };
  resource: {
    /** Register a resource. Registering an identical version again changes nothing (200 over HTTP). With `dryRun` everything is checked and nothing is stored. Fails with `resourceExists`, `resourceInvalid`, `resourceNotFound` for a reference, `resourceCycle`, `quotaExceeded`; `details.path` of the error names the invalid field of the content. */
    register(request: Commands["resource_register"]["request"]): Promise<Commands["resource_register"]["reply"]>;
    /** Publish a new version of the tenant's own resource: `version`, or the next patch, minor or major (`bump`). Fails with `resourceNotFound`, `resourceVersionExists`, `accessDenied` for others', and as `resourceRegister` does. */
    publish(request: Commands["resource_publish"]["request"]): Promise<Commands["resource_publish"]["reply"]>;
    /** Search for resources. Your own and public ones; the best match first if there is a `q`, else by name. */
    list(request?: Commands["resource_list"]["request"]): Promise<Commands["resource_list"]["reply"]>;
    /** Resolve a URI to a version and its rendered form. Fails with `resourceNotFound`, `resourceUriInvalid`, `promptUnresolved`. */
    resolve(request: Commands["resource_resolve"]["request"]): Promise<Commands["resource_resolve"]["reply"]>;
  };
  agent: {
    /** Show an agent: its `state`, and how many messages wait for it. The other fields are absent when it does not exist. */
    get(request: Commands["agent_get"]["request"]): Promise<Commands["agent_get"]["reply"]>;
    /** List the running agents of a container. */
    list(request: Commands["agent_list"]["request"]): Promise<Commands["agent_list"]["reply"]>;
    /** Stop an agent; a running turn, and one that waits for answers, ends as interrupted. `success` is false when there was none. Emits `sessionDestroyed` and `agentUnregistered`. */
    destroy(request: Commands["agent_destroy"]["request"]): Promise<Commands["agent_destroy"]["reply"]>;
    /** Stop every agent of a container, as `agentDestroy` does. */
    destroyAll(request: Commands["agent_destroy_all"]["request"]): Promise<Commands["agent_destroy_all"]["reply"]>;
    /** Stop the current turn of an image, an agent or a session; queued messages run on. Emits `interrupted` before the reply. The reply about an image without an agent has no `agentId`. Fails with `agentNotFound`, and with `invalidInput` when none of them is given. */
    interrupt(request?: Commands["agent_interrupt"]["request"]): Promise<Commands["agent_interrupt"]["reply"]>;
  };
  tool: {
    /** Explain a tool call: the rule that decided about it, and the verdict on each tier. Fails with `notFound` until the call has its result, and for calls of older releases. */
    explain(request: Commands["tool_explain"]["request"]): Promise<Commands["tool_explain"]["reply"]>;
    /** List waiting tool calls, the oldest first. Of a session, a container, or all that you may use. */
    waits(request?: Commands["tool_waits"]["request"]): Promise<Commands["tool_waits"]["reply"]>;
    /** Answer a waiting tool call: approve, edit or deny it, or give its result. The first answer counts. The same answer again has the same reply. */
    answer(request: Commands["tool_answer"]["request"]): Promise<Commands["tool_answer"]["reply"]>;
  };
  memory: {
    /** List the memories of a container, the newest first. Proposed memories are included: no model receives them before a person accepts them with `memoryPut`. */
    list(request: Commands["memory_list"]["request"]): Promise<Commands["memory_list"]["reply"]>;
    /** Add a memory, and the container if there is none. A pinned memory is in every prompt; of the others first those that match the question, then the newest. */
    add(request: Commands["memory_add"]["request"]): Promise<Commands["memory_add"]["reply"]>;
    /** Change a memory, accept a proposed one, or add one under your own id. From then on, rewinding the conversation that it comes from does not remove it. */
    put(request: Commands["memory_put"]["request"]): Promise<Commands["memory_put"]["reply"]>;
    /** Delete a memory. */
    delete(request: Commands["memory_delete"]["request"]): Promise<Commands["memory_delete"]["reply"]>;
  };
  session: {
    /** List the sessions of an image, its default session first. */
    list(request: Commands["session_list"]["request"]): Promise<Commands["session_list"]["reply"]>;
    /** List sessions. Of one container, or of every container that you may use: pinned ones first, then by the time of the last message. */
    browse(request?: Commands["session_browse"]["request"]): Promise<Commands["session_browse"]["reply"]>;
    /** Search messages and titles. The best match first. Every word must be in a message, or in a title; a word of three letters or more also matches the beginning of a longer one. */
    search(request: Commands["session_search"]["request"]): Promise<Commands["session_search"]["reply"]>;
    /** Read the messages of a session, from either end, or around one of them. */
    history(request: Commands["session_history"]["request"]): Promise<Commands["session_history"]["reply"]>;
    /** Read the newest messages of a session at once. */
    messages(request: Commands["session_messages"]["request"]): Promise<Commands["session_messages"]["reply"]>;
    /** Create a session of an image. */
    create(request: Commands["session_create"]["request"]): Promise<Commands["session_create"]["reply"]>;
    /** Show a session. */
    get(request: Commands["session_get"]["request"]): Promise<Commands["session_get"]["reply"]>;
    /** Rename a session. `null` removes the title. */
    setTitle(request: Commands["session_set_title"]["request"]): Promise<Commands["session_set_title"]["reply"]>;
    /** Pin a session to the top of lists, or unpin it. */
    pin(request: Commands["session_pin"]["request"]): Promise<Commands["session_pin"]["reply"]>;
    /** Archive a session, which hides it from lists, or unarchive it. */
    archive(request: Commands["session_archive"]["request"]): Promise<Commands["session_archive"]["reply"]>;
    /** Delete a session. It can be restored for a while. An image is deleted with its last session, and restored with it. */
    delete(request: Commands["session_delete"]["request"]): Promise<Commands["session_delete"]["reply"]>;
    /** Restore a deleted session. */
    restore(request: Commands["session_restore"]["request"]): Promise<Commands["session_restore"]["reply"]>;
    /** Mark a session as read. */
    markRead(request: Commands["session_mark_read"]["request"]): Promise<Commands["session_mark_read"]["reply"]>;
    /** Release a quarantined session, so that it accepts messages again. */
    release(request: Commands["session_release"]["request"]): Promise<Commands["session_release"]["reply"]>;
    /** Start the agent of a session. */
    resume(request: Commands["session_resume"]["request"]): Promise<Commands["session_resume"]["reply"]>;
    /** Get the session of an image that a client knows by a name of its own; the first time, create it. The name is stored in the commit that creates the session, so that of two requests at once one creates it. Fails with `imageNotFound`. */
    open(request: Commands["session_open"]["request"]): Promise<Commands["session_open"]["reply"]>;
    /** Fork a session. The new session starts with the messages of this one, up to and including a message, which may also be a rewound one. */
    fork(request: Commands["session_fork"]["request"]): Promise<Commands["session_fork"]["reply"]>;
    /** Remove the end of a session. The messages leave the history and the search, and are kept. */
    rewind(request: Commands["session_rewind"]["request"]): Promise<Commands["session_rewind"]["reply"]>;
    /** List the rewinds of a session, the latest first. `/messages?rewind=` reads the messages of one, and `fork` continues from one of them. */
    rewinds(request: Commands["session_rewinds"]["request"]): Promise<Commands["session_rewinds"]["reply"]>;
    /** Summarize older messages to free context. The newest exchanges are left out. This is a billed model call; the messages are not changed. */
    compact(request: Commands["session_compact"]["request"]): Promise<Commands["session_compact"]["reply"]>;
    /** List the summaries of a session, the newest first. */
    summaries(request: Commands["session_summaries"]["request"]): Promise<Commands["session_summaries"]["reply"]>;
    /** Save a draft; with `ifUpdatedAt` only if it has not changed since. */
    draft(request: Commands["session_draft"]["request"]): Promise<Commands["session_draft"]["reply"]>;
    /** List your own drafts in a session, of all your devices. */
    drafts(request: Commands["session_drafts"]["request"]): Promise<Commands["session_drafts"]["reply"]>;
    /** List your own drafts of all sessions, each with its beginning. */
    draftList(request?: Commands["session_draft_list"]["request"]): Promise<Commands["session_draft_list"]["reply"]>;
  };
  file: {
    /** List the files of a session in the order of their paths. */
    list(request: Commands["file_list"]["request"]): Promise<Commands["file_list"]["reply"]>;
    /** Show the record of a file. Fails with `fileNotFound`. */
    get(request: Commands["file_get"]["request"]): Promise<Commands["file_get"]["reply"]>;
    /** List the states that a file of a session had, the newest first. One for each message that changed the file; changes that were rewound are left out. */
    versions(request: Commands["file_versions"]["request"]): Promise<Commands["file_versions"]["reply"]>;
    /** Download a file of a session, of up to 4 MiB. A larger one is downloaded over HTTP. Fails with `fileNotFound`, `invalidInput`. */
    read(request: Commands["file_read"]["request"]): Promise<Commands["file_read"]["reply"]>;
    /** Write a file of a session, of up to 4 MiB: it is created, or replaced. A larger one is uploaded over HTTP. Fails with `workspaceFull`, `filePathInvalid`, `quotaExceeded`, `invalidInput`. */
    write(request: Commands["file_write"]["request"]): Promise<Commands["file_write"]["reply"]>;
    /** Delete a file of a session. With `If-Match` only if it has the bytes of that ETag. */
    delete(request: Commands["file_delete"]["request"]): Promise<Commands["file_delete"]["reply"]>;
  };
  message: {
    /** Send a message to an agent. Its answer comes as events. */
    send(request: Commands["message_send"]["request"]): Promise<Commands["message_send"]["reply"]>;
    /** Replace a user's message. Later messages are removed from the history in the same commit and kept, and a turn begins. */
    edit(request: Commands["message_edit"]["request"]): Promise<Commands["message_edit"]["reply"]>;
    /** Regenerate an answer. The old one is kept and can be viewed. */
    regenerate(request: Commands["message_regenerate"]["request"]): Promise<Commands["message_regenerate"]["reply"]>;
  };
  run: {
    /** Run an agent once, without a session to continue with. Its answer arrives as events; a waiting turn keeps its session until it has ended. */
    start(request: Commands["run_start"]["request"]): Promise<Commands["run_start"]["reply"]>;
  };
  schedule: {
    /** Create a schedule: an agent receives a message at the times of `cron`. `cron` has five fields, or is a name such as `@daily`; `zone` is a name of the IANA database. Turns are billed to you. A call that needs an approval is denied, unless `onAsk` is `wait`. */
    create(request: Commands["schedule_create"]["request"]): Promise<Commands["schedule_create"]["reply"]>;
    /** List schedules, oldest first. */
    list(request?: Commands["schedule_list"]["request"]): Promise<Commands["schedule_list"]["reply"]>;
    /** Show a schedule. */
    get(request: Commands["schedule_get"]["request"]): Promise<Commands["schedule_get"]["reply"]>;
    /** Update, disable or enable a schedule. */
    update(request: Commands["schedule_update"]["request"]): Promise<Commands["schedule_update"]["reply"]>;
    /** Delete a schedule and the list of its runs. Sessions and turns stay. */
    delete(request: Commands["schedule_delete"]["request"]): Promise<Commands["schedule_delete"]["reply"]>;
    /** List the last runs of a schedule, and the times at which it did not run, newest first. */
    runs(request: Commands["schedule_runs"]["request"]): Promise<Commands["schedule_runs"]["reply"]>;
    /** Run a schedule once now, in addition to its times. */
    run(request: Commands["schedule_run"]["request"]): Promise<Commands["schedule_run"]["reply"]>;
  };
  trigger: {
    /** Create a trigger: another program starts turns of an agent. The agent receives your message, followed by the body of the request as data. The secret is shown once; requests are signed with it. */
    create(request: Commands["trigger_create"]["request"]): Promise<Commands["trigger_create"]["reply"]>;
    /** List triggers, oldest first. */
    list(request?: Commands["trigger_list"]["request"]): Promise<Commands["trigger_list"]["reply"]>;
    /** Show a trigger. */
    get(request: Commands["trigger_get"]["request"]): Promise<Commands["trigger_get"]["reply"]>;
    /** Update, disable or enable a trigger. */
    update(request: Commands["trigger_update"]["request"]): Promise<Commands["trigger_update"]["reply"]>;
    /** Replace the secret of a trigger. The new one is shown once. For 24 hours requests may be signed with either. */
    rotate(request: Commands["trigger_rotate"]["request"]): Promise<Commands["trigger_rotate"]["reply"]>;
    /** Delete a trigger and the list of its runs. Sessions and turns stay. */
    delete(request: Commands["trigger_delete"]["request"]): Promise<Commands["trigger_delete"]["reply"]>;
    /** List the last runs of a trigger, newest first. */
    runs(request: Commands["trigger_runs"]["request"]): Promise<Commands["trigger_runs"]["reply"]>;
  };
}

/** Every operation of the management API, by noun. */
export interface HttpVerbs {
  key: {
    /** Create a key. */
    create(request: HttpOperations["key.create"]["request"], options?: CallOptions): Promise<HttpOperations["key.create"]["reply"]>;
    /** List keys. Newest first, including revoked keys. */
    list(request?: HttpOperations["key.list"]["request"], options?: CallOptions): Promise<HttpOperations["key.list"]["reply"]>;
    /** Show a key. */
    get(request: HttpOperations["key.get"]["request"], options?: CallOptions): Promise<HttpOperations["key.get"]["reply"]>;
    /** Revoke a key. */
    revoke(request: HttpOperations["key.revoke"]["request"], options?: CallOptions): Promise<HttpOperations["key.revoke"]["reply"]>;
    /** Replace a key by a new one with the same rights. */
    rotate(request: HttpOperations["key.rotate"]["request"], options?: CallOptions): Promise<HttpOperations["key.rotate"]["reply"]>;
  };
  auth: {
    /** Show which identity and permissions your key has. */
    whoami(request?: HttpOperations["auth.whoami"]["request"], options?: CallOptions): Promise<HttpOperations["auth.whoami"]["reply"]>;
    /** Create a token for one WebSocket. It opens one WebSocket within a minute, so it may appear in a URL: it is useless to a later reader. */
    wsToken(request?: HttpOperations["auth.ws_token"]["request"], options?: CallOptions): Promise<HttpOperations["auth.ws_token"]["reply"]>;
    /** Sign a browser in with an API key. The response sets a cookie, which stands for the key until it is revoked or expires, or the browser is signed out or not used for 14 days. A request with the cookie that writes must come from a page of this server. */
    signIn(request?: HttpOperations["auth.sign_in"]["request"], options?: CallOptions): Promise<HttpOperations["auth.sign_in"]["reply"]>;
    /** Sign out this browser. */
    signOut(request?: HttpOperations["auth.sign_out"]["request"], options?: CallOptions): Promise<HttpOperations["auth.sign_out"]["reply"]>;
    /** List your signed-in browsers, the last used first. */
    sessions(request?: HttpOperations["auth.sessions"]["request"], options?: CallOptions): Promise<HttpOperations["auth.sessions"]["reply"]>;
    /** Sign out one of your browsers. Its sockets are closed at once. */
    sessionEnd(request: HttpOperations["auth.session_end"]["request"], options?: CallOptions): Promise<HttpOperations["auth.session_end"]["reply"]>;
    /** Start the sign-in at the identity provider. The response sets a cookie, which the callback requires, and contains the address of the provider. Both are valid for ten minutes. */
    oidcStart(request?: HttpOperations["auth.oidc_start"]["request"], options?: CallOptions): Promise<HttpOperations["auth.oidc_start"]["reply"]>;
    /** Finish the sign-in after the identity provider. Redirects to the page where the sign-in started, with the cookie of a browser session; or to `/login?problem=` with the reason. A state can be used once. */
    oidcCallback(request?: HttpOperations["auth.oidc_callback"]["request"], options?: CallOptions): Promise<HttpOperations["auth.oidc_callback"]["reply"]>;
  };
  preferences: {
    /** Show your preferences for the console. They are the same on every device. A key without a user has its own. */
    get(request?: HttpOperations["preferences.get"]["request"], options?: CallOptions): Promise<HttpOperations["preferences.get"]["reply"]>;
    /** Replace your preferences for the console. */
    put(request?: HttpOperations["preferences.put"]["request"], options?: CallOptions): Promise<HttpOperations["preferences.put"]["reply"]>;
  };
  invitation: {
    /** Create an invitation. The link creates one user with the role, who gets a key or signs in at the identity provider. It is shown once. */
    create(request?: HttpOperations["invitation.create"]["request"], options?: CallOptions): Promise<HttpOperations["invitation.create"]["reply"]>;
    /** List invitations. Newest first, including those that were accepted, were revoked or have expired. */
    list(request?: HttpOperations["invitation.list"]["request"], options?: CallOptions): Promise<HttpOperations["invitation.list"]["reply"]>;
    /** Revoke an invitation. A user it has created stays. */
    revoke(request: HttpOperations["invitation.revoke"]["request"], options?: CallOptions): Promise<HttpOperations["invitation.revoke"]["reply"]>;
    /** Show an invitation to the person who has its link. */
    show(request?: HttpOperations["invitation.show"]["request"], options?: CallOptions): Promise<HttpOperations["invitation.show"]["reply"]>;
    /** Accept an invitation. Creates the user and their first key, which is shown once. */
    accept(request?: HttpOperations["invitation.accept"]["request"], options?: CallOptions): Promise<HttpOperations["invitation.accept"]["reply"]>;
  };
  tenant: {
    /** Create a tenant. */
    create(request: HttpOperations["tenant.create"]["request"], options?: CallOptions): Promise<HttpOperations["tenant.create"]["reply"]>;
    /** List tenants by slug. */
    list(request?: HttpOperations["tenant.list"]["request"], options?: CallOptions): Promise<HttpOperations["tenant.list"]["reply"]>;
    /** Show a tenant. */
    get(request: HttpOperations["tenant.get"]["request"], options?: CallOptions): Promise<HttpOperations["tenant.get"]["reply"]>;
    /** Change a tenant. */
    update(request: HttpOperations["tenant.update"]["request"], options?: CallOptions): Promise<HttpOperations["tenant.update"]["reply"]>;
    /** Delete a tenant. Everything that it owns is deleted, except its ledger, its audit log, and versions of resources that others are locked to. This cannot be undone. With `dryRun` the response counts the data that would be deleted. */
    delete(request: HttpOperations["tenant.delete"]["request"], options?: CallOptions): Promise<HttpOperations["tenant.delete"]["reply"]>;
  };
  user: {
    /** Create a user. */
    create(request: HttpOperations["user.create"]["request"], options?: CallOptions): Promise<HttpOperations["user.create"]["reply"]>;
    /** List users by external id. */
    list(request?: HttpOperations["user.list"]["request"], options?: CallOptions): Promise<HttpOperations["user.list"]["reply"]>;
    /** Show a user. */
    get(request: HttpOperations["user.get"]["request"], options?: CallOptions): Promise<HttpOperations["user.get"]["reply"]>;
    /** Change a user. */
    update(request: HttpOperations["user.update"]["request"], options?: CallOptions): Promise<HttpOperations["user.update"]["reply"]>;
    /** Delete a user. Their keys and limits are deleted, and the contents of the containers that no other user is bound to. This cannot be undone. With `dryRun` the response counts the data that would be deleted. */
    delete(request: HttpOperations["user.delete"]["request"], options?: CallOptions): Promise<HttpOperations["user.delete"]["reply"]>;
    /** List the containers that a user may use. In the order in which they were bound; the first was created with the user. */
    listContainers(request: HttpOperations["user.list_containers"]["request"], options?: CallOptions): Promise<HttpOperations["user.list_containers"]["reply"]>;
    /** Give a user access to a container. */
    bind(request: HttpOperations["user.bind"]["request"], options?: CallOptions): Promise<HttpOperations["user.bind"]["reply"]>;
    /** Revoke a user's access to a container. Takes effect at once: their sockets are closed. */
    unbind(request: HttpOperations["user.unbind"]["request"], options?: CallOptions): Promise<HttpOperations["user.unbind"]["reply"]>;
  };
  container: {
    /** List the containers that you may use, oldest first. */
    browse(request?: HttpOperations["container.browse"]["request"], options?: CallOptions): Promise<HttpOperations["container.browse"]["reply"]>;
    /** Show a container, and count its data. */
    show(request: HttpOperations["container.show"]["request"], options?: CallOptions): Promise<HttpOperations["container.show"]["reply"]>;
    /** Delete a container. Everything in it is deleted, which cannot be undone; its turns are stopped first. Emits `containerDeleted`. A user may delete a container that no other user is bound to. With `dryRun` nothing is deleted, and the reply counts the data that would be. Until the contents are erased, creating a container of the same id fails with `containerErasing`. */
    delete(request: HttpOperations["container.delete"]["request"], options?: CallOptions): Promise<HttpOperations["container.delete"]["reply"]>;
  };
  erasure: {
    /** List unfinished erasures, oldest first. The operator sees those of the whole server, including deleted tenants. A finished erasure leaves the list. */
    list(request?: HttpOperations["erasure.list"]["request"], options?: CallOptions): Promise<HttpOperations["erasure.list"]["reply"]>;
  };
  quota: {
    /** List quotas and how much of them is used. Every metric of the tenant with the effective limit, which may be its plan's; then the limits of each user and of single users. Without `tenants:admin` you see the limits that apply to you. A key for some containers that has no user sees no limits of users. */
    list(request?: HttpOperations["quota.list"]["request"], options?: CallOptions): Promise<HttpOperations["quota.list"]["reply"]>;
    /** Set a quota. */
    put(request: HttpOperations["quota.put"]["request"], options?: CallOptions): Promise<HttpOperations["quota.put"]["reply"]>;
    /** Delete a quota. */
    delete(request: HttpOperations["quota.delete"]["request"], options?: CallOptions): Promise<HttpOperations["quota.delete"]["reply"]>;
  };
  usage: {
    /** Summarize usage. Without `tenants:admin` you see your own usage; with a key for some containers, only the usage there. */
    report(request?: HttpOperations["usage.report"]["request"], options?: CallOptions): Promise<HttpOperations["usage.report"]["reply"]>;
    /** Show usage over time. One row for each hour, day or month (UTC), without gaps. You see the same usage as in `/v1/usage`. */
    series(request?: HttpOperations["usage.series"]["request"], options?: CallOptions): Promise<HttpOperations["usage.series"]["reply"]>;
    /** List the entries of the ledger, in the order they were written, or the newest first. */
    entries(request?: HttpOperations["usage.entries"]["request"], options?: CallOptions): Promise<HttpOperations["usage.entries"]["reply"]>;
    /** Book model calls that were made at the edge. Each is entered once, at the prices of this server, and counts against quotas and wallet. Sending it again changes nothing. */
    book(request: HttpOperations["usage.book"]["request"], options?: CallOptions): Promise<HttpOperations["usage.book"]["reply"]>;
    /** Compare the ledger with a provider's bill. The body is the provider's usage export, CSV or JSON: a row has a day, a model and token counts. An operator who names no tenant compares the ledgers of all tenants, since the bill covers all of them. */
    reconcile(request?: HttpOperations["usage.reconcile"]["request"], options?: CallOptions): Promise<HttpOperations["usage.reconcile"]["reply"]>;
  };
  cost: {
    /** Estimate the monthly cost of serving users. Computed from the coefficients and the example prices of this release, without the tokens of models. */
    estimate(request?: HttpOperations["cost.estimate"]["request"], options?: CallOptions): Promise<HttpOperations["cost.estimate"]["reply"]>;
    /** Show the margin of each tenant, and the money saved by the choice of cheap sandboxes. */
    tenants(request?: HttpOperations["cost.tenants"]["request"], options?: CallOptions): Promise<HttpOperations["cost.tenants"]["reply"]>;
  };
  wallet: {
    /** Show the wallet. */
    get(request?: HttpOperations["wallet.get"]["request"], options?: CallOptions): Promise<HttpOperations["wallet.get"]["reply"]>;
    /** List credits and the usage of each day, newest first. */
    statement(request?: HttpOperations["wallet.statement"]["request"], options?: CallOptions): Promise<HttpOperations["wallet.statement"]["reply"]>;
    /** Add a credit; a negative amount withdraws money. */
    credit(request: HttpOperations["wallet.credit"]["request"], options?: CallOptions): Promise<HttpOperations["wallet.credit"]["reply"]>;
  };
  secret: {
    /** List the names of secrets. */
    list(request?: HttpOperations["secret.list"]["request"], options?: CallOptions): Promise<HttpOperations["secret.list"]["reply"]>;
    /** Store a secret. */
    put(request: HttpOperations["secret.put"]["request"], options?: CallOptions): Promise<HttpOperations["secret.put"]["reply"]>;
    /** Delete a secret, and its grants. */
    delete(request: HttpOperations["secret.delete"]["request"], options?: CallOptions): Promise<HttpOperations["secret.delete"]["reply"]>;
    /** List the tools that may use secrets. */
    grants(request?: HttpOperations["secret.grants"]["request"], options?: CallOptions): Promise<HttpOperations["secret.grants"]["reply"]>;
    /** Grant a tool access to a secret. In a header or the query of its requests to these hosts, or as a variable of its code. Another grant of the same secret to the same tool for the same use replaces it. */
    grant(request: HttpOperations["secret.grant"]["request"], options?: CallOptions): Promise<HttpOperations["secret.grant"]["reply"]>;
    /** Revoke a tool's access to a secret, from its next call on. */
    revoke(request: HttpOperations["secret.revoke"]["request"], options?: CallOptions): Promise<HttpOperations["secret.revoke"]["reply"]>;
  };
  channel: {
    /** List the platforms that channels can connect to, with the settings of each. */
    kinds(request?: HttpOperations["channel.kinds"]["request"], options?: CallOptions): Promise<HttpOperations["channel.kinds"]["reply"]>;
    /** List channels by name, with their status. */
    list(request?: HttpOperations["channel.list"]["request"], options?: CallOptions): Promise<HttpOperations["channel.list"]["reply"]>;
    /** Show a channel and its status. */
    get(request: HttpOperations["channel.get"]["request"], options?: CallOptions): Promise<HttpOperations["channel.get"]["reply"]>;
    /** Connect a bot of a chat platform to an agent. The channel gets its own key, which is never shown, with permission to use agents in the containers of its senders. */
    create(request: HttpOperations["channel.create"]["request"], options?: CallOptions): Promise<HttpOperations["channel.create"]["reply"]>;
    /** Change a channel. It connects again. With another agent, every chat begins a new session. */
    update(request: HttpOperations["channel.update"]["request"], options?: CallOptions): Promise<HttpOperations["channel.update"]["reply"]>;
    /** Connect a channel that was disabled. Pending answers are delivered. */
    enable(request: HttpOperations["channel.enable"]["request"], options?: CallOptions): Promise<HttpOperations["channel.enable"]["reply"]>;
    /** Disconnect a channel. Its turns continue; their answers wait. */
    disable(request: HttpOperations["channel.disable"]["request"], options?: CallOptions): Promise<HttpOperations["channel.disable"]["reply"]>;
    /** Delete a channel and revoke its key. The sessions of its senders stay. */
    delete(request: HttpOperations["channel.delete"]["request"], options?: CallOptions): Promise<HttpOperations["channel.delete"]["reply"]>;
  };
  sandbox: {
    /** Run code in a sandbox. The code runs in its own jail, which is removed before the reply is sent. Its time counts towards the quota of sandbox seconds. */
    run(request?: HttpOperations["sandbox.run"]["request"], options?: CallOptions): Promise<HttpOperations["sandbox.run"]["reply"]>;
    /** List the tiers of this server, the weakest first, with the engines and walls of each. The first request tries every wall of the machine. */
    tiers(request?: HttpOperations["sandbox.tiers"]["request"], options?: CallOptions): Promise<HttpOperations["sandbox.tiers"]["reply"]>;
  };
  config: {
    /** Show the effective settings, without secrets. */
    show(request?: HttpOperations["config.show"]["request"], options?: CallOptions): Promise<HttpOperations["config.show"]["reply"]>;
    /** Change settings: all of them, or none if one is invalid. */
    change(request?: HttpOperations["config.change"]["request"], options?: CallOptions): Promise<HttpOperations["config.change"]["reply"]>;
    /** List the changes of settings, newest first. */
    history(request?: HttpOperations["config.history"]["request"], options?: CallOptions): Promise<HttpOperations["config.history"]["reply"]>;
    /** Show the differences between two revisions. */
    diff(request: HttpOperations["config.diff"]["request"], options?: CallOptions): Promise<HttpOperations["config.diff"]["reply"]>;
    /** Restore the settings of an earlier revision, as a new change. */
    rollback(request: HttpOperations["config.rollback"]["request"], options?: CallOptions): Promise<HttpOperations["config.rollback"]["reply"]>;
    /** Show the JSON Schema of a configuration file. */
    schema(request?: HttpOperations["config.schema"]["request"], options?: CallOptions): Promise<HttpOperations["config.schema"]["reply"]>;
    /** Explain a setting: effective value, all sources, precedence. A group shows all settings below it. */
    get(request: HttpOperations["config.get"]["request"], options?: CallOptions): Promise<HttpOperations["config.get"]["reply"]>;
    /** Change one setting. A `value` of null removes the override. */
    put(request: HttpOperations["config.put"]["request"], options?: CallOptions): Promise<HttpOperations["config.put"]["reply"]>;
  };
  audit: {
    /** List the audit log, newest entries first. */
    list(request?: HttpOperations["audit.list"]["request"], options?: CallOptions): Promise<HttpOperations["audit.list"]["reply"]>;
  };
  definition: {
    /** List the definitions that images can be built from. In the order of `definitionList`. */
    browse(request?: HttpOperations["definition.browse"]["request"], options?: CallOptions): Promise<HttpOperations["definition.browse"]["reply"]>;
    /** Show a definition. `definitionName` may also be the URI of an agent. `definition` is `null` when there is none. */
    get(request: HttpOperations["definition.get"]["request"], options?: CallOptions): Promise<HttpOperations["definition.get"]["reply"]>;
  };
  catalog: {
    /** List the models that an agent can have. The default first; then those of the server's providers, those that the operator has a price for, and the fallbacks. A provider may have more than it lists: any `<provider>/<model>` can be tried. */
    models(request?: HttpOperations["catalog.models"]["request"], options?: CallOptions): Promise<HttpOperations["catalog.models"]["reply"]>;
    /** List the built-in tools that an agent can name. */
    tools(request?: HttpOperations["catalog.tools"]["request"], options?: CallOptions): Promise<HttpOperations["catalog.tools"]["reply"]>;
  };
  image: {
    /** Build an image. From the server's default definition, or from the one that `config.definition` names. */
    add(request?: HttpOperations["image.add"]["request"], options?: CallOptions): Promise<HttpOperations["image.add"]["reply"]>;
    /** Change an image. Changes the given fields that are not `null`, and resets those in `clear`. All but `name` and `description` go into the image's config, and the image is rebuilt; its agents use the new build from their next turn on. Other references keep their versions. Emits `imageUpdated`. Fails with `imageNotFound`, and as `imageCreate` does. */
    update(request: HttpOperations["image.update"]["request"], options?: CallOptions): Promise<HttpOperations["image.update"]["reply"]>;
    /** Resolve the references of an image again and rebuild it. References with an exact version keep it. `changes` lists references that resolve to another version now; without any, nothing is built. With `dryRun` the changes are only reported. Emits `imageUpdated`. Fails with `imageNotFound`, and as `imageCreate` does. */
    upgrade(request: HttpOperations["image.upgrade"]["request"], options?: CallOptions): Promise<HttpOperations["image.upgrade"]["reply"]>;
    /** Save an image as one file. With its definition, its snapshot, and every resource that it was built from; without secrets. The same image always gives the same bytes. Needs `resources:read` if the image has resources. */
    save(request: HttpOperations["image.save"]["request"], options?: CallOptions): Promise<HttpOperations["image.save"]["reply"]>;
    /** Build the image of a file. Its resources become yours, and the image is built from them with every check of a build. An altered file is refused, and so is one whose image would behave differently on this server. Needs `resources:write` if the image has resources. */
    load(request?: HttpOperations["image.load"]["request"], options?: CallOptions): Promise<HttpOperations["image.load"]["reply"]>;
    /** List the tags of an image. */
    tags(request: HttpOperations["image.tags"]["request"], options?: CallOptions): Promise<HttpOperations["image.tags"]["reply"]>;
    /** Set a tag of an image. The tag moves if it pointed to another image of the container. `image:<tag>` then names the image wherever the name of an agent is expected. A tag is deleted with the default session of its image. */
    tag(request: HttpOperations["image.tag"]["request"], options?: CallOptions): Promise<HttpOperations["image.tag"]["reply"]>;
    /** Remove a tag of an image. */
    untag(request: HttpOperations["image.untag"]["request"], options?: CallOptions): Promise<HttpOperations["image.untag"]["reply"]>;
    /** Stop every agent of an image. A running turn ends as interrupted. Emits `sessionDestroyed` and `agentUnregistered` for each. Fails with `imageNotFound`. */
    stop(request: HttpOperations["image.stop"]["request"], options?: CallOptions): Promise<HttpOperations["image.stop"]["reply"]>;
    /** List images. Of one container, or of every container that you may use: by the name of the container, the newest image first. `behind` counts the references that resolve to another version now. */
    browse(request?: HttpOperations["image.browse"]["request"], options?: CallOptions): Promise<HttpOperations["image.browse"]["reply"]>;
    /** Show an image. `config` is the effective configuration of the image, `written` the one that was requested. Over a WebSocket `record` is `null` when there is no such image. Subscribes. */
    get(request: HttpOperations["image.get"]["request"], options?: CallOptions): Promise<HttpOperations["image.get"]["reply"]>;
    /** Delete an image. Its sessions and their messages are deleted with it. */
    remove(request: HttpOperations["image.remove"]["request"], options?: CallOptions): Promise<HttpOperations["image.remove"]["reply"]>;
  };
  attachment: {
    /** Upload a file that messages can refer to. The body is the file, and Content-Type its media type. A file that the container already has is stored once (200). A file that no message refers to is deleted after a day. */
    upload(request?: HttpOperations["attachment.upload"]["request"], options?: CallOptions): Promise<HttpOperations["attachment.upload"]["reply"]>;
    /** List the files of a container, the newest first. Files are uploaded over [HTTP](attachments.md). Fails with `containerForbidden`, `invalidInput`. */
    list(request?: HttpOperations["attachment.list"]["request"], options?: CallOptions): Promise<HttpOperations["attachment.list"]["reply"]>;
    /** Download a file by its reference or its digest. */
    download(request: HttpOperations["attachment.download"]["request"], options?: CallOptions): Promise<HttpOperations["attachment.download"]["reply"]>;
    /** Delete a file to which no message refers. */
    delete(request: HttpOperations["attachment.delete"]["request"], options?: CallOptions): Promise<HttpOperations["attachment.delete"]["reply"]>;
  };
  resource: {
    /** List the types of resources, with the JSON Schema of their content. */
    types(request?: HttpOperations["resource.types"]["request"], options?: CallOptions): Promise<HttpOperations["resource.types"]["reply"]>;
    /** Register a resource. Registering an identical version again changes nothing (200 over HTTP). With `dryRun` everything is checked and nothing is stored. Fails with `resourceExists`, `resourceInvalid`, `resourceNotFound` for a reference, `resourceCycle`, `quotaExceeded`; `details.path` of the error names the invalid field of the content. */
    register(request: HttpOperations["resource.register"]["request"], options?: CallOptions): Promise<HttpOperations["resource.register"]["reply"]>;
    /** Search for resources. Your own and public ones; the best match first if there is a `q`, else by name. */
    list(request?: HttpOperations["resource.list"]["request"], options?: CallOptions): Promise<HttpOperations["resource.list"]["reply"]>;
    /** Show a resource with the content of one version, by default the latest. */
    get(request: HttpOperations["resource.get"]["request"], options?: CallOptions): Promise<HttpOperations["resource.get"]["reply"]>;
    /** Publish a new version, or change the description of the resource. With `If-Match: "<digest>"` only if the latest version still has that digest. */
    update(request: HttpOperations["resource.update"]["request"], options?: CallOptions): Promise<HttpOperations["resource.update"]["reply"]>;
    /** Delete a resource. One that images or other resources refer to is kept, unless an administrator gives `force`: then it is hidden, and everything that is locked to it keeps working. */
    delete(request: HttpOperations["resource.delete"]["request"], options?: CallOptions): Promise<HttpOperations["resource.delete"]["reply"]>;
    /** Resolve a URI. A URI with an exact version or a digest always means the same, and the response may be cached. */
    resolveUri(request: HttpOperations["resource.resolve_uri"]["request"], options?: CallOptions): Promise<HttpOperations["resource.resolve_uri"]["reply"]>;
    /** Resolve one URI with long arguments, or several URIs. Of several, one that cannot be resolved has an `error`, and does not affect the others. */
    resolveMany(request?: HttpOperations["resource.resolve_many"]["request"], options?: CallOptions): Promise<HttpOperations["resource.resolve_many"]["reply"]>;
    /** List the versions of a resource, also yanked ones. */
    versions(request: HttpOperations["resource.versions"]["request"], options?: CallOptions): Promise<HttpOperations["resource.versions"]["reply"]>;
    /** Yank a version. From then on only references to its exact number resolve to it; locks keep working. */
    yank(request: HttpOperations["resource.yank"]["request"], options?: CallOptions): Promise<HttpOperations["resource.yank"]["reply"]>;
    /** Yank a version, or restore it. */
    setYanked(request: HttpOperations["resource.set_yanked"]["request"], options?: CallOptions): Promise<HttpOperations["resource.set_yanked"]["reply"]>;
    /** Read the tools of a set from its source again. If they have changed a new version is published with them; images that are locked to the old version keep it. */
    pin(request: HttpOperations["resource.pin"]["request"], options?: CallOptions): Promise<HttpOperations["resource.pin"]["reply"]>;
    /** Set a tag of a version. */
    tag(request: HttpOperations["resource.tag"]["request"], options?: CallOptions): Promise<HttpOperations["resource.tag"]["reply"]>;
    /** Delete a tag. */
    untag(request: HttpOperations["resource.untag"]["request"], options?: CallOptions): Promise<HttpOperations["resource.untag"]["reply"]>;
    /** List the versions that a version is locked to. */
    dependencies(request: HttpOperations["resource.dependencies"]["request"], options?: CallOptions): Promise<HttpOperations["resource.dependencies"]["reply"]>;
    /** List the dependents of a resource. */
    dependents(request: HttpOperations["resource.dependents"]["request"], options?: CallOptions): Promise<HttpOperations["resource.dependents"]["reply"]>;
    /** Export a version as an archive. The same version always gives the same bytes. */
    export(request: HttpOperations["resource.export"]["request"], options?: CallOptions): Promise<HttpOperations["resource.export"]["reply"]>;
    /** Import an exported archive. All of it, or nothing. Everything becomes yours; importing it again changes nothing. */
    import(request?: HttpOperations["resource.import"]["request"], options?: CallOptions): Promise<HttpOperations["resource.import"]["reply"]>;
    /** Download a binary part of a version. */
    blob(request: HttpOperations["resource.blob"]["request"], options?: CallOptions): Promise<HttpOperations["resource.blob"]["reply"]>;
    /** Search the documents of a knowledge base. The first search in a version builds its index, which takes a while for many documents. */
    query(request: HttpOperations["resource.query"]["request"], options?: CallOptions): Promise<HttpOperations["resource.query"]["reply"]>;
    /** Open the range of a document that a citation names: exactly these characters. */
    passage(request: HttpOperations["resource.passage"]["request"], options?: CallOptions): Promise<HttpOperations["resource.passage"]["reply"]>;
    /** Call a tool once, outside a conversation. The input is validated, and rules, secrets, quotas and limits apply as in a conversation. The call never waits: if it needs an approval it is refused, unless `approve` is set and the caller may approve it. */
    invoke(request: HttpOperations["resource.invoke"]["request"], options?: CallOptions): Promise<HttpOperations["resource.invoke"]["reply"]>;
  };
  collection: {
    /** Create an empty collection. */
    create(request: HttpOperations["collection.create"]["request"], options?: CallOptions): Promise<HttpOperations["collection.create"]["reply"]>;
    /** List collections by name. */
    list(request?: HttpOperations["collection.list"]["request"], options?: CallOptions): Promise<HttpOperations["collection.list"]["reply"]>;
    /** Show a collection. */
    get(request: HttpOperations["collection.get"]["request"], options?: CallOptions): Promise<HttpOperations["collection.get"]["reply"]>;
    /** Delete a collection with all revisions. Searches in knowledge bases that refer to it then find nothing. */
    delete(request: HttpOperations["collection.delete"]["request"], options?: CallOptions): Promise<HttpOperations["collection.delete"]["reply"]>;
    /** Delete older revisions, with the documents that only they contain. Knowledge bases that refer to one of them can no longer be searched. */
    forget(request: HttpOperations["collection.forget"]["request"], options?: CallOptions): Promise<HttpOperations["collection.forget"]["reply"]>;
    /** List the documents of a collection by name, each with the progress of its indexing. */
    documents(request: HttpOperations["collection.documents"]["request"], options?: CallOptions): Promise<HttpOperations["collection.documents"]["reply"]>;
    /** Add a document to a collection, or replace it: the body is its bytes. Creates a revision (201), unless the bytes are unchanged (200). The document is indexed in the background. */
    putDocument(request: HttpOperations["collection.put_document"]["request"], options?: CallOptions): Promise<HttpOperations["collection.put_document"]["reply"]>;
    /** Delete a document from every revision of a collection. Searches in older revisions report that it was deleted; its text, passages and bytes are deleted. */
    deleteDocument(request: HttpOperations["collection.delete_document"]["request"], options?: CallOptions): Promise<HttpOperations["collection.delete_document"]["reply"]>;
  };
  retention: {
    /** Show the retention policy, and count the data it would delete now. Counts all expired messages, which takes time: call it before changing a policy, not periodically. */
    show(request?: HttpOperations["retention.show"]["request"], options?: CallOptions): Promise<HttpOperations["retention.show"]["reply"]>;
  };
  log: {
    /** List log entries, or follow the log. Newest first; a page may hold fewer than `limit` entries and still have a `nextCursor`. With `follow=true` the response does not end: new entries are sent as they come, each once, oldest first, as lines of JSON, or as server-sent events if `text/event-stream` is accepted. A stream begins with the newest `limit` entries, or with those after `after`. Only the operator sees entries of no tenant. In a cluster `nodes=all` lists the entries of all nodes, each with its `nodeId`; a stream is that of the node which is asked. */
    list(request?: HttpOperations["log.list"]["request"], options?: CallOptions): Promise<HttpOperations["log.list"]["reply"]>;
  };
  error: {
    /** List errors by kind. Errors with the same code, event and place are one group, with their count and the first and the last time. The groups seen last come first. Only errors that the log still holds are counted. In a cluster `nodes=all` counts those of all nodes; without it only those of the requested node. */
    list(request?: HttpOperations["error.list"]["request"], options?: CallOptions): Promise<HttpOperations["error.list"]["reply"]>;
  };
  provider: {
    /** List the model providers and their health. In the order of the configuration, as your tenant's calls experience them. Only the operator sees their addresses, and the number of calls of all tenants. */
    list(request?: HttpOperations["provider.list"]["request"], options?: CallOptions): Promise<HttpOperations["provider.list"]["reply"]>;
  };
  metric: {
    /** Show the metrics. JSON, or the Prometheus text format if it is accepted. A tenant sees its own numbers. In a cluster they are those of the requested node; with `nodes=all` the operator gets those of each node, and a tenant the sums of all. Let Prometheus scrape each node. */
    show(request?: HttpOperations["metric.show"]["request"], options?: CallOptions): Promise<HttpOperations["metric.show"]["reply"]>;
    /** Show the metrics in the Prometheus text format. */
    scrape(request?: HttpOperations["metric.scrape"]["request"], options?: CallOptions): Promise<HttpOperations["metric.scrape"]["reply"]>;
    /** Show whether the server is healthy, and remedies if it is not. The status contains no data of tenants. Only the operator sees the address of a provider that fails. In a cluster `nodes=all` shows the status of each node, and the checks of all. */
    status(request?: HttpOperations["metric.status"]["request"], options?: CallOptions): Promise<HttpOperations["metric.status"]["reply"]>;
    /** Show metrics over time: one sample a minute of the last 24 hours. Of the whole server, for its operator. In memory: a restart begins a new series. */
    series(request?: HttpOperations["metric.series"]["request"], options?: CallOptions): Promise<HttpOperations["metric.series"]["reply"]>;
  };
  cluster: {
    /** List the nodes that share the database, with the number of sessions that each runs. For the operator. A server alone is listed as the only node. */
    nodes(request?: HttpOperations["cluster.nodes"]["request"], options?: CallOptions): Promise<HttpOperations["cluster.nodes"]["reply"]>;
    /** Drain a node: it accepts no new work, finishes turns within a grace period, and hands the rest over. Returns when the drain has started; the node then ends on its own. Clients continue on other nodes. */
    drain(request: HttpOperations["cluster.drain"]["request"], options?: CallOptions): Promise<HttpOperations["cluster.drain"]["reply"]>;
  };
  turn: {
    /** List turns. Of a session, a container, or all that you may use: the newest first, or the slowest. A turn without an outcome is running, or parked: its calls wait for an answer. */
    list(request?: HttpOperations["turn.list"]["request"], options?: CallOptions): Promise<HttpOperations["turn.list"]["reply"]>;
    /** Show the timeline of a turn: its time, usage and cost. Also while it runs. Usage and cost are known even when its events are no longer kept. */
    show(request: HttpOperations["turn.show"]["request"], options?: CallOptions): Promise<HttpOperations["turn.show"]["reply"]>;
    /** List the events of a turn, or follow it. As they were sent, in their order, with the same text. No model is called. With `follow=true` the response is server-sent events that continue until the turn has ended; each event's `id` is its cursor. */
    events(request: HttpOperations["turn.events"]["request"], options?: CallOptions): Promise<HttpOperations["turn.events"]["reply"]>;
  };
  tool: {
    /** Explain a tool call: the rule that decided about it, and the verdict on each tier. Fails with `notFound` until the call has its result, and for calls of older releases. */
    explain(request: HttpOperations["tool.explain"]["request"], options?: CallOptions): Promise<HttpOperations["tool.explain"]["reply"]>;
    /** List waiting tool calls, the oldest first. Of a session, a container, or all that you may use. */
    waits(request?: HttpOperations["tool.waits"]["request"], options?: CallOptions): Promise<HttpOperations["tool.waits"]["reply"]>;
    /** Show a tool call that waits: the tool, its input, who may answer, and until when. */
    wait(request: HttpOperations["tool.wait"]["request"], options?: CallOptions): Promise<HttpOperations["tool.wait"]["reply"]>;
    /** Answer a waiting tool call: approve, edit or deny it, or give its result. The first answer counts. The same answer again has the same reply. */
    answer(request: HttpOperations["tool.answer"]["request"], options?: CallOptions): Promise<HttpOperations["tool.answer"]["reply"]>;
    /** Create a one-use link that approves or denies a tool call. The holder of the link decides in your name, as long as you may answer yourself. Opening the link only shows the call; its form decides. Needs `sessions:read`, too. */
    link(request: HttpOperations["tool.link"]["request"], options?: CallOptions): Promise<HttpOperations["tool.link"]["reply"]>;
  };
  feedback: {
    /** Rate the answer of a turn, with an optional note. Replaces your earlier rating. */
    give(request: HttpOperations["feedback.give"]["request"], options?: CallOptions): Promise<HttpOperations["feedback.give"]["reply"]>;
    /** Delete your rating of a turn. */
    withdraw(request: HttpOperations["feedback.withdraw"]["request"], options?: CallOptions): Promise<HttpOperations["feedback.withdraw"]["reply"]>;
    /** List ratings of answers, the newest first. With `tenants:admin`, those of all users of the tenant; your own otherwise. With a key for some containers, those there. */
    list(request?: HttpOperations["feedback.list"]["request"], options?: CallOptions): Promise<HttpOperations["feedback.list"]["reply"]>;
  };
  share: {
    /** Create a read-only link to a session as it is now, for all users of your tenant who may read sessions. */
    create(request: HttpOperations["share.create"]["request"], options?: CallOptions): Promise<HttpOperations["share.create"]["reply"]>;
    /** List the links to a session, the newest first. */
    list(request: HttpOperations["share.list"]["request"], options?: CallOptions): Promise<HttpOperations["share.list"]["reply"]>;
    /** Revoke a link to a session. */
    end(request: HttpOperations["share.end"]["request"], options?: CallOptions): Promise<HttpOperations["share.end"]["reply"]>;
    /** Read a shared session: its questions and answers when the link was created. */
    read(request: HttpOperations["share.read"]["request"], options?: CallOptions): Promise<HttpOperations["share.read"]["reply"]>;
  };
  memory: {
    /** List the memories of a container, the newest first. Proposed memories are included: no model receives them before a person accepts them with `memoryPut`. */
    list(request: HttpOperations["memory.list"]["request"], options?: CallOptions): Promise<HttpOperations["memory.list"]["reply"]>;
    /** Add a memory, and the container if there is none. A pinned memory is in every prompt; of the others first those that match the question, then the newest. */
    add(request: HttpOperations["memory.add"]["request"], options?: CallOptions): Promise<HttpOperations["memory.add"]["reply"]>;
    /** Change a memory, accept a proposed one, or add one under your own id. From then on, rewinding the conversation that it comes from does not remove it. */
    put(request: HttpOperations["memory.put"]["request"], options?: CallOptions): Promise<HttpOperations["memory.put"]["reply"]>;
    /** Delete a memory. */
    delete(request: HttpOperations["memory.delete"]["request"], options?: CallOptions): Promise<HttpOperations["memory.delete"]["reply"]>;
  };
  mcp: {
    /** List the MCP servers on which AgentVM acts for you. No token is shown. */
    connections(request?: HttpOperations["mcp.connections"]["request"], options?: CallOptions): Promise<HttpOperations["mcp.connections"]["reply"]>;
    /** Disconnect from an MCP server. Its tokens are deleted, and revoked if the server supports that. The next call asks for consent again. */
    disconnect(request: HttpOperations["mcp.disconnect"]["request"], options?: CallOptions): Promise<HttpOperations["mcp.disconnect"]["reply"]>;
  };
  session: {
    /** List sessions. Of one container, or of every container that you may use: pinned ones first, then by the time of the last message. */
    browse(request?: HttpOperations["session.browse"]["request"], options?: CallOptions): Promise<HttpOperations["session.browse"]["reply"]>;
    /** Search messages and titles. The best match first. Every word must be in a message, or in a title; a word of three letters or more also matches the beginning of a longer one. */
    search(request: HttpOperations["session.search"]["request"], options?: CallOptions): Promise<HttpOperations["session.search"]["reply"]>;
    /** Read the messages of a session, from either end, or around one of them. */
    history(request: HttpOperations["session.history"]["request"], options?: CallOptions): Promise<HttpOperations["session.history"]["reply"]>;
    /** Show a session. */
    get(request: HttpOperations["session.get"]["request"], options?: CallOptions): Promise<HttpOperations["session.get"]["reply"]>;
    /** Rename, pin or archive a session. */
    update(request: HttpOperations["session.update"]["request"], options?: CallOptions): Promise<HttpOperations["session.update"]["reply"]>;
    /** Delete a session. It can be restored for a while. An image is deleted with its last session, and restored with it. */
    delete(request: HttpOperations["session.delete"]["request"], options?: CallOptions): Promise<HttpOperations["session.delete"]["reply"]>;
    /** Restore a deleted session. */
    restore(request: HttpOperations["session.restore"]["request"], options?: CallOptions): Promise<HttpOperations["session.restore"]["reply"]>;
    /** Mark a session as read. */
    markRead(request: HttpOperations["session.mark_read"]["request"], options?: CallOptions): Promise<HttpOperations["session.mark_read"]["reply"]>;
    /** Fork a session. The new session starts with the messages of this one, up to and including a message, which may also be a rewound one. */
    fork(request: HttpOperations["session.fork"]["request"], options?: CallOptions): Promise<HttpOperations["session.fork"]["reply"]>;
    /** Remove the end of a session. The messages leave the history and the search, and are kept. */
    rewind(request: HttpOperations["session.rewind"]["request"], options?: CallOptions): Promise<HttpOperations["session.rewind"]["reply"]>;
    /** List the rewinds of a session, the latest first. `/messages?rewind=` reads the messages of one, and `fork` continues from one of them. */
    rewinds(request: HttpOperations["session.rewinds"]["request"], options?: CallOptions): Promise<HttpOperations["session.rewinds"]["reply"]>;
    /** Summarize older messages to free context. The newest exchanges are left out. This is a billed model call; the messages are not changed. */
    compact(request: HttpOperations["session.compact"]["request"], options?: CallOptions): Promise<HttpOperations["session.compact"]["reply"]>;
    /** List the summaries of a session, the newest first. */
    summaries(request: HttpOperations["session.summaries"]["request"], options?: CallOptions): Promise<HttpOperations["session.summaries"]["reply"]>;
    /** List your own drafts in a session, of all your devices. */
    drafts(request: HttpOperations["session.drafts"]["request"], options?: CallOptions): Promise<HttpOperations["session.drafts"]["reply"]>;
    /** List your own drafts of all sessions, each with its beginning. */
    draftList(request?: HttpOperations["session.draft_list"]["request"], options?: CallOptions): Promise<HttpOperations["session.draft_list"]["reply"]>;
  };
  file: {
    /** List the files of a session in the order of their paths. */
    list(request: HttpOperations["file.list"]["request"], options?: CallOptions): Promise<HttpOperations["file.list"]["reply"]>;
    /** List the states that a file of a session had, the newest first. One for each message that changed the file; changes that were rewound are left out. */
    versions(request: HttpOperations["file.versions"]["request"], options?: CallOptions): Promise<HttpOperations["file.versions"]["reply"]>;
    /** Download a file of a session. */
    download(request: HttpOperations["file.download"]["request"], options?: CallOptions): Promise<HttpOperations["file.download"]["reply"]>;
    /** Write a file of a session: the body is its bytes. The file is created (201) or replaced (200). With `If-Match` only if it has the bytes of that ETag, with `If-None-Match: *` only if there is none. Rewinding the session to before its current last message reverts the change. */
    put(request: HttpOperations["file.put"]["request"], options?: CallOptions): Promise<HttpOperations["file.put"]["reply"]>;
    /** Delete a file of a session. With `If-Match` only if it has the bytes of that ETag. */
    delete(request: HttpOperations["file.delete"]["request"], options?: CallOptions): Promise<HttpOperations["file.delete"]["reply"]>;
    /** Download all files of a session as a ZIP. It is streamed. */
    archive(request: HttpOperations["file.archive"]["request"], options?: CallOptions): Promise<HttpOperations["file.archive"]["reply"]>;
  };
  message: {
    /** Replace a user's message. Later messages are removed from the history in the same commit and kept, and a turn begins. */
    edit(request: HttpOperations["message.edit"]["request"], options?: CallOptions): Promise<HttpOperations["message.edit"]["reply"]>;
    /** Regenerate an answer. The old one is kept and can be viewed. */
    regenerate(request: HttpOperations["message.regenerate"]["request"], options?: CallOptions): Promise<HttpOperations["message.regenerate"]["reply"]>;
    /** Send a message and receive the answer. When the turn has ended, or as server-sent events with `stream`: each event's `id` is a cursor, with which `GET /v1/turns/{turn_id}/events?follow=true` continues after a lost connection. The turn continues if the client does not wait. */
    ask(request: HttpOperations["message.ask"]["request"], options?: CallOptions): Promise<HttpOperations["message.ask"]["reply"]>;
  };
  run: {
    /** Run an agent once and receive the answer. When the turn has ended, or as server-sent events with `stream`. Only its ledger entry is kept, unless `keep` is set. */
    ask(request: HttpOperations["run.ask"]["request"], options?: CallOptions): Promise<HttpOperations["run.ask"]["reply"]>;
  };
  draft: {
    /** Save a draft of a message in a session. */
    put(request: HttpOperations["draft.put"]["request"], options?: CallOptions): Promise<HttpOperations["draft.put"]["reply"]>;
    /** Delete a draft. */
    delete(request: HttpOperations["draft.delete"]["request"], options?: CallOptions): Promise<HttpOperations["draft.delete"]["reply"]>;
  };
  transfer: {
    /** Export sessions: one, those of a container or of a user, or all. As an archive that can be imported elsewhere, or as a page for reading. It is streamed. The same sessions give the same bytes. */
    export(request?: HttpOperations["transfer.export"]["request"], options?: CallOptions): Promise<HttpOperations["transfer.export"]["reply"]>;
    /** Import sessions: an archive of AgentVM, or an export of ChatGPT, Claude or Open WebUI. All of it, or nothing; existing sessions are not imported again. Ids are kept if they are free; otherwise they are replaced, and the response lists them. */
    import(request?: HttpOperations["transfer.import"]["request"], options?: CallOptions): Promise<HttpOperations["transfer.import"]["reply"]>;
  };
  webhook: {
    /** Create a webhook. The secret is shown once; receivers verify signatures with it. */
    create(request: HttpOperations["webhook.create"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.create"]["reply"]>;
    /** List webhooks, oldest first. */
    list(request?: HttpOperations["webhook.list"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.list"]["reply"]>;
    /** Show a webhook. */
    get(request: HttpOperations["webhook.get"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.get"]["reply"]>;
    /** Update, disable or enable a webhook. */
    update(request: HttpOperations["webhook.update"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.update"]["reply"]>;
    /** Delete a webhook and its deliveries. */
    delete(request: HttpOperations["webhook.delete"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.delete"]["reply"]>;
    /** Replace the secret of a webhook. The new one is shown once. For 24 hours deliveries are signed with both. */
    rotate(request: HttpOperations["webhook.rotate"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.rotate"]["reply"]>;
    /** Send a test event and show the result. Its type is `webhook.test`. It is sent regardless of the events of the webhook, and retried like any other. */
    test(request: HttpOperations["webhook.test"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.test"]["reply"]>;
    /** List the deliveries of a webhook, newest first. */
    deliveries(request: HttpOperations["webhook.deliveries"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.deliveries"]["reply"]>;
    /** Send a delivery again now, with the same `webhook-id`. */
    redeliver(request: HttpOperations["webhook.redeliver"]["request"], options?: CallOptions): Promise<HttpOperations["webhook.redeliver"]["reply"]>;
  };
  schedule: {
    /** Create a schedule: an agent receives a message at the times of `cron`. `cron` has five fields, or is a name such as `@daily`; `zone` is a name of the IANA database. Turns are billed to you. A call that needs an approval is denied, unless `onAsk` is `wait`. */
    create(request: HttpOperations["schedule.create"]["request"], options?: CallOptions): Promise<HttpOperations["schedule.create"]["reply"]>;
    /** List schedules, oldest first. */
    list(request?: HttpOperations["schedule.list"]["request"], options?: CallOptions): Promise<HttpOperations["schedule.list"]["reply"]>;
    /** Show a schedule. */
    get(request: HttpOperations["schedule.get"]["request"], options?: CallOptions): Promise<HttpOperations["schedule.get"]["reply"]>;
    /** Update, disable or enable a schedule. */
    update(request: HttpOperations["schedule.update"]["request"], options?: CallOptions): Promise<HttpOperations["schedule.update"]["reply"]>;
    /** Delete a schedule and the list of its runs. Sessions and turns stay. */
    delete(request: HttpOperations["schedule.delete"]["request"], options?: CallOptions): Promise<HttpOperations["schedule.delete"]["reply"]>;
    /** List the last runs of a schedule, and the times at which it did not run, newest first. */
    runs(request: HttpOperations["schedule.runs"]["request"], options?: CallOptions): Promise<HttpOperations["schedule.runs"]["reply"]>;
    /** Run a schedule once now, in addition to its times. */
    run(request: HttpOperations["schedule.run"]["request"], options?: CallOptions): Promise<HttpOperations["schedule.run"]["reply"]>;
  };
  trigger: {
    /** Create a trigger: another program starts turns of an agent. The agent receives your message, followed by the body of the request as data. The secret is shown once; requests are signed with it. */
    create(request: HttpOperations["trigger.create"]["request"], options?: CallOptions): Promise<HttpOperations["trigger.create"]["reply"]>;
    /** List triggers, oldest first. */
    list(request?: HttpOperations["trigger.list"]["request"], options?: CallOptions): Promise<HttpOperations["trigger.list"]["reply"]>;
    /** Show a trigger. */
    get(request: HttpOperations["trigger.get"]["request"], options?: CallOptions): Promise<HttpOperations["trigger.get"]["reply"]>;
    /** Update, disable or enable a trigger. */
    update(request: HttpOperations["trigger.update"]["request"], options?: CallOptions): Promise<HttpOperations["trigger.update"]["reply"]>;
    /** Replace the secret of a trigger. The new one is shown once. For 24 hours requests may be signed with either. */
    rotate(request: HttpOperations["trigger.rotate"]["request"], options?: CallOptions): Promise<HttpOperations["trigger.rotate"]["reply"]>;
    /** Delete a trigger and the list of its runs. Sessions and turns stay. */
    delete(request: HttpOperations["trigger.delete"]["request"], options?: CallOptions): Promise<HttpOperations["trigger.delete"]["reply"]>;
    /** List the last runs of a trigger, newest first. */
    runs(request: HttpOperations["trigger.runs"]["request"], options?: CallOptions): Promise<HttpOperations["trigger.runs"]["reply"]>;
    /** Start a turn of a trigger's agent, with the body as data. Needs no key: the request is signed with the trigger's secret as Standard Webhooks has it, in the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`. The same `webhook-id` again is the same turn. The body is text of at most 256 KiB. */
    fire(request: HttpOperations["trigger.fire"]["request"], options?: CallOptions): Promise<HttpOperations["trigger.fire"]["reply"]>;
  };
}

/** The codes of errors. */
export type ErrorCode =
  | "access_denied"
  | "agent_busy"
  | "agent_not_found"
  | "agent_not_running"
  | "approval_required"
  | "archive_invalid"
  | "archive_too_large"
  | "attachment_in_use"
  | "attachment_not_found"
  | "attachment_too_large"
  | "authentication_off"
  | "backup_invalid"
  | "channel_closed"
  | "channel_error"
  | "config_invalid"
  | "conflict"
  | "constraint_failed"
  | "container_erasing"
  | "container_forbidden"
  | "container_not_found"
  | "data_dir_in_use"
  | "definition_conflict"
  | "definition_not_found"
  | "driver_not_found"
  | "egress_refused"
  | "engine_lacking"
  | "file_not_found"
  | "file_path_invalid"
  | "history_too_large"
  | "image_not_found"
  | "inbox_full"
  | "input_too_large"
  | "internal_error"
  | "invalid_input"
  | "mcp_changed"
  | "mcp_command_not_allowed"
  | "mcp_consent_required"
  | "memory_not_found"
  | "migration_unknown"
  | "missing_key"
  | "model_unavailable"
  | "model_unpriced"
  | "node_fenced"
  | "node_silent"
  | "not_available"
  | "not_found"
  | "output_misfit"
  | "permission_denied"
  | "platform_failed"
  | "platform_refused"
  | "precondition_failed"
  | "prompt_unresolved"
  | "provider_auth_failed"
  | "provider_bad_request"
  | "provider_error"
  | "provider_overloaded"
  | "provider_protocol_error"
  | "provider_rate_limited"
  | "provider_unreachable"
  | "query_timeout"
  | "quota_exceeded"
  | "record_unreadable"
  | "refused"
  | "remote_error"
  | "request_timeout"
  | "resource_cycle"
  | "resource_exists"
  | "resource_in_use"
  | "resource_invalid"
  | "resource_lock_mismatch"
  | "resource_not_found"
  | "resource_too_deep"
  | "resource_too_large"
  | "resource_uri_invalid"
  | "resource_version_exists"
  | "resource_visibility_conflict"
  | "secret_not_granted"
  | "server_busy"
  | "session_moved"
  | "session_not_found"
  | "session_quarantined"
  | "sessions_moved"
  | "shutting_down"
  | "store_failed"
  | "tier_broken"
  | "tier_unavailable"
  | "timeout"
  | "too_many_memories"
  | "tool_denied"
  | "tool_failed"
  | "tool_not_found"
  | "turn_limit_reached"
  | "unauthenticated"
  | "unknown_command"
  | "unprocessable"
  | "wait_answered"
  | "wait_expired"
  | "wait_forbidden"
  | "wait_not_found"
  | "wallet_empty"
  | "workspace_full"
  | "writes_refused";

/** An agent. `queued` are the messages that wait behind the turn that runs. */
export interface AgentRecord {
  agentId: string;
  containerId: string;
  imageId: string;
  sessionId?: string;
  state?: "asleep" | "idle" | "running" | "stopped" | "stopping";
  queued?: number;
}

export interface AssistantMessage {
  subtype: "assistant";
  id: string;
  timestamp: number;
  turnId?: string;
  role: "assistant";
  content: (TextPart | ThinkingPart)[];
  usage?: Usage;
  providerContent?: ProviderContent;
  citations?: Citation[];
}

export interface AttachmentPage {
  items: AttachmentRecord[];
  nextCursor?: string;
}

/** An uploaded file. `attachment` is the reference, for the `data` of a message part. */
export interface AttachmentRecord {
  attachment: string;
  digest: string;
  containerId: string;
  size: number;
  mediaType: string;
  createdAt: number;
  name?: string;
  uploadedBy?: string;
}

export interface AuditViewPage {
  items: AuditView[];
  nextCursor?: string;
}

/** `known` entries had been booked before, and were left alone. */
export interface Booked {
  booked: number;
  known: number;
}

export interface BoundViewPage {
  items: BoundView[];
  nextCursor?: string;
}

/** A signed-in browser. `current` is the one that asks. */
export interface BrowserSessionView {
  browserSessionId: string;
  keyId: string;
  userAgent: string;
  createdAt: number;
  lastUsedAt: number;
  current?: boolean;
}

export interface BrowserSessionViewPage {
  items: BrowserSessionView[];
  nextCursor?: string;
}

export interface BuiltinTools {
  items: BuiltinToolView[];
}

/** One call, or all calls of a turn; `id` names it permanently. `driver` is the kind of the provider, such as anthropic. */
export interface CallEntry {
  id: string;
  at: number;
  containerId: string;
  imageId: string;
  sessionId: string;
  turnId: string;
  driver: string;
  model: string;
  usage: CallUsage;
  provider?: string | null;
}

export interface ChangeViewPage {
  items: ChangeView[];
  nextCursor?: string;
}

export interface ChannelKinds {
  items: ChannelKind[];
}

/** A channel. In `settings` a secret is the name of a secret of the tenant, never its value. */
export interface ChannelView {
  channelId: string;
  name: string;
  kind: string;
  agent: string;
  settings: Record<string, string>;
  messagesPerMinute: number;
  keyId: string;
  enabled: boolean;
  status: ChannelStatus;
  createdBy: string;
  createdAt: number;
  updatedAt: number;
}

export interface ChannelViewPage {
  items: ChannelView[];
  nextCursor?: string;
}

/** The metrics of nodes, oldest first. */
export interface ClusterMetrics {
  nodes: NodeMetrics[];
}

/** The nodes, oldest first, and their database. Nodes that have ended are listed for an hour. */
export interface ClusterNodes {
  isShared: boolean;
  nodes: ClusterNode[];
  database: DatabaseState;
}

/** `bytes` counts the documents of all revisions, `documents` those of the newest. Those before `oldest` were forgotten. */
export interface CollectionView {
  collectionId: string;
  revision: number;
  oldest: number;
  documents: number;
  bytes: number;
  maxBytes: number;
  createdAt: number;
  updatedAt: number;
}

export interface CollectionViewPage {
  items: CollectionView[];
  nextCursor?: string;
}

/** `revision` counts the changes. `pendingRestart` names settings that differ from those the server was started with. */
export interface ConfigView {
  revision: number;
  tenantId?: string;
  config: Record<string, unknown>;
  pendingRestart?: string[];
  settings?: SettingView[];
}

export interface ConnectionsView {
  items: ConnectionView[];
}

export interface ContainerNameViewPage {
  items: ContainerNameView[];
  nextCursor?: string;
}

/** `owned` counts the data that would be deleted with it. */
export interface ContainerView {
  containerId: string;
  createdAt: number;
  updatedAt: number;
  owned: OwnedRecord;
}

/** A resource with one of its versions, as it was published. */
export interface ContentView {
  id: string;
  uri: string;
  resource: ResourceRecord;
  version: VersionView;
  content: unknown;
  schema?: Record<string, unknown>;
  dependencies?: Record<string, string>;
  pointers?: Record<string, string>;
}

/** A monthly bill in dollars with its needs and coefficients; `total` is absent if the shape cannot carry the workload. */
export interface CostReport {
  workload: Workload;
  shape: "cluster" | "edge" | "one-node";
  needs: Needs;
  lines: BillLine[];
  problem?: string;
  total?: number;
  perThousandUsers?: number;
  breakEven?: number;
  peers: PeerBill[];
  sensitivity: Sensitivity[];
  measures: NamedMeasure[];
  pricesOf: string;
  measuredOn: string;
  machine: string;
  version: string;
}

/** `added` is false when the reference was added before. */
export interface CreditView {
  added: boolean;
  amount: number;
  reference: string;
  wallet: WalletView;
}

/** A template for agents. Lives in code or in the resource centre; images keep a snapshot, never a link. */
export interface Definition {
  name: string;
  description?: string | null;
  systemPrompt?: string | null;
  model?: string | null;
  tools?: string[] | null;
  sandbox?: string | null;
  knowledge?: string[];
  skills?: string[];
  handoffs?: string[];
  variables?: Record<string, unknown> | null;
  policy?: PolicyRule[];
  maxTokens?: number | null;
  temperature?: number | null;
  thinking?: number | null;
  output?: OutputFormat | null;
  turnOptions?: ("instructions" | "max_tokens" | "model" | "output" | "stop" | "temperature" | "thinking" | "tools")[] | null;
  rendered?: Rendered | null;
}

/** A definition as clients see it. `uri` is there if it is an agent of the resource centre. */
export interface DefinitionRecord {
  name: string;
  description?: string;
  systemPrompt?: string;
  model?: string;
  tools?: string[];
  sandbox?: string;
  knowledge?: string[];
  skills?: string[];
  handoffs?: string[];
  variables?: Record<string, unknown>;
  policy?: PolicyRule[];
  maxTokens?: number;
  temperature?: number;
  thinking?: number;
  output?: OutputFormat;
  turnOptions?: ("instructions" | "max_tokens" | "model" | "output" | "stop" | "temperature" | "thinking" | "tools")[];
  rendered?: Rendered;
  uri?: string;
}

/** Part of a list. `nextCursor` is absent on the last page. */
export interface DefinitionsPage {
  items: DefinitionRecord[];
  nextCursor?: string;
}

export interface Deleted {
  sessionId: string;
  restorableUntil: number;
}

/** One event to one webhook. `status` is that of the last response; `eventId` is the header `webhook-id`. */
export interface DeliveryView {
  number: number;
  eventId: string;
  type: string;
  state: "delivered" | "failed" | "pending";
  createdAt: number;
  attempts: number;
  nextAt?: number;
  lastAt?: number;
  deliveredAt?: number;
  status?: number;
  error?: string;
}

export interface DeliveryViewPage {
  items: DeliveryView[];
  nextCursor?: string;
}

/** Each before its dependents. `duplicates` are resources of which more than one version is used. */
export interface DependenciesView {
  uri: string;
  items: DependencyView[];
  duplicates: Warned[];
}

/** The dependents of a resource: images and versions that are locked to one of its versions. */
export interface DependentsView {
  resources: DependentView[];
  images: string[];
  imageCount: number;
  foreign: number;
  imageNames: string[];
}

export interface DiffView {
  from: number;
  to: number;
  changed: Changed[];
}

/** A document. `passages` of it are searched once its state is `indexed`; `problem` says why one is `failed`. */
export interface DocumentView {
  document: string;
  title?: string;
  mediaType?: string;
  digest?: string;
  size: number;
  addedIn: number;
  addedAt: number;
  state: "deleted" | "failed" | "indexed" | "waiting";
  passages?: number;
  problem?: string;
  revision?: number;
}

export interface DocumentViewPage {
  items: DocumentView[];
  nextCursor?: string;
}

/** Text that a user has begun to write and not sent; `device` is absent for a draft without a device. */
export interface Draft {
  sessionId: string;
  containerId: string;
  imageId: string;
  text: string;
  updatedAt: number;
  device?: string;
}

/** A draft in a list: `preview` is its beginning. */
export interface DraftListed {
  sessionId: string;
  containerId: string;
  imageId: string;
  preview: string;
  updatedAt: number;
  device?: string;
}

export interface DraftListedPage {
  items: DraftListed[];
}

export interface DraftPage {
  sessionId: string;
  items: Draft[];
}

/** The present draft; absent when it was removed. */
export interface DraftView {
  draft?: Draft;
}

/** A node that has begun to drain. */
export interface DrainedNode {
  nodeId: number;
}

export interface EntryViewPage {
  items: EntryView[];
  nextCursor?: string;
}

export interface ErasureViewPage {
  items: ErasureView[];
  nextCursor?: string;
}

/** Errors by kind, with the nodes that were asked and have not answered. */
export interface ErrorGroups {
  items: ErrorGroup[];
  nextCursor?: string;
  silentNodes?: SilentNode[];
}

export interface ErrorMessage {
  subtype: "error";
  id: string;
  timestamp: number;
  turnId?: string;
  role: "error";
  content: string;
  errorCode: string;
}

/** A rating of a turn. `author` is a user, or a key without a user; empty while authentication is off. */
export interface Feedback {
  turnId: string;
  sessionId: string;
  author: string;
  rating: "down" | "up";
  note?: string;
  at: number;
}

export interface FeedbackViewPage {
  items: FeedbackView[];
  nextCursor?: string;
}

export interface FileDeleteReply {
  path: string;
}

/** `data` is bare base64, an http(s) URL, or a reference to an uploaded file: `attachment:sha256:…`. */
export interface FilePart {
  type: "file";
  data: string;
  mediaType: string;
  filename?: string | null;
}

/** A state of a file. `digest` is absent where it was deleted, `messageId` for a change that came with no message. */
export interface FileVersion {
  digest?: string;
  size?: number;
  executable?: boolean;
  changedAt: number;
  messageId?: string;
}

export interface FileVersionsView {
  path: string;
  items: FileVersion[];
}

/** `capped` when more messages match than are ranked; then the newest 10,000 were. */
export interface FoundPage {
  items: FoundRecord[];
  total: number;
  capped?: boolean;
  nextCursor?: string;
  titles?: TitleRecord[];
}

/** A message that matches a search. `position` is its number in the session, from 0. */
export interface FoundRecord {
  sessionId: string;
  imageId: string;
  containerId: string;
  title: string | null;
  messageId: string;
  role: "assistant" | "tool" | "user";
  at: number;
  position: number;
  snippet: string;
  cursor: string;
  tool?: string;
  before?: string;
  after?: string;
}

/** Passages, the best first, and the documents that could not be read. */
export interface FoundView {
  passages: PassageView[];
  problems?: DocumentProblem[];
}

/** `tool` is the URI of a tool, or `stdio:<id>` for an MCP server of the operator. */
export interface GrantView {
  secret: string;
  tool: string;
  as: "env" | "header" | "query";
  hosts: string[];
  grantedBy: string;
  grantedAt: number;
}

export interface GrantViewPage {
  items: GrantView[];
  nextCursor?: string;
}

/** The settings below a key. */
export interface GroupView {
  key: string;
  value: Record<string, unknown>;
  settings: SettingView[];
}

/** A reference that means another version now. */
export interface ImageChange {
  uri: string;
  from: string;
  to: string;
}

/** The additions of a build to the definition. Unset fields fall back to the definition's. */
export interface ImageConfig {
  name?: string | null;
  description?: string | null;
  systemPrompt?: string | null;
  model?: string | null;
  tools?: string[] | null;
  sandbox?: string | null;
  knowledge?: string[] | null;
  skills?: string[] | null;
  variables?: Record<string, unknown> | null;
  temperature?: number | null;
  maxTokens?: number | null;
  thinking?: number | null;
  output?: OutputFormat | null;
  mcpServers?: Record<string, unknown> | null;
  clientData?: Record<string, unknown> | null;
  apiKey?: string | null;
  definition?: string | null;
  hasApiKey?: boolean;
}

export interface ImageDifference {
  before?: unknown;
  after?: unknown;
}

export interface ImageIdReply {
  imageId: string;
}

/** `data` is bare base64, an http(s) URL, or a reference to an uploaded file: `attachment:sha256:…`. */
export interface ImagePart {
  type: "image";
  data: string;
  mediaType: string;
  name?: string | null;
}

/** An image as clients see it. `online` and `agentId` speak of the default session's agent. */
export interface ImageRecord {
  imageId: string;
  containerId: string;
  sessionId: string;
  name: string;
  createdAt: number;
  updatedAt: number;
  online: boolean;
  definitionName: string;
  digest: string;
  description?: string;
  systemPrompt?: string;
  agentId?: string;
  systemPromptRef?: string;
  definitionRef?: string;
  toolRefs?: string[];
  lock?: LockRecord[];
  config?: EffectiveConfig;
  written?: DefinitionRecord;
  behind?: number;
  warnings?: string[];
  clientData?: Record<string, unknown>;
}

export interface ImageTagsReply {
  imageId: string;
  tags: string[];
}

/** The fields to change. All but `name` and `description` rebuild the image. */
export interface ImageUpdates {
  name?: string | null;
  description?: string | null;
  systemPrompt?: string | null;
  model?: string | null;
  tools?: string[] | null;
  sandbox?: string | null;
  knowledge?: string[] | null;
  skills?: string[] | null;
  variables?: Record<string, unknown> | null;
  temperature?: number | null;
  maxTokens?: number | null;
  thinking?: number | null;
  output?: OutputFormat | null;
  mcpServers?: Record<string, unknown> | null;
  clientData?: Record<string, unknown> | null;
  apiKey?: string | null;
  clear?: ("apiKey" | "clientData" | "knowledge" | "maxTokens" | "mcpServers" | "model" | "output" | "sandbox" | "skills" | "systemPrompt" | "temperature" | "thinking" | "tools" | "variables")[];
}

export interface ImageView {
  image: ImageRecord;
  warnings?: string[];
}

/** Part of a list. `nextCursor` is absent on the last page. */
export interface ImagesPage {
  items: ImageRecord[];
  nextCursor?: string;
}

/** The result of an import, or of a dry run; `format` is the program that wrote the file. */
export interface ImportReport {
  format: string;
  counts: ImportCounts;
  known: number;
  continued: number;
  containers: string[];
  renamed: Record<string, string>;
  bytes: number;
  dryRun: boolean;
}

/** The result of each entry, dependencies first. */
export interface ImportView {
  items: ImportedEntry[];
  dryRun?: boolean;
}

/** An invitation as the invited person sees it. */
export interface InvitationShown {
  tenant: string;
  role: "admin" | "member" | "owner" | "viewer";
  externalId?: string;
  displayName?: string;
  expiresAt: number;
}

/** An invitation. `link` is the path of the page to send to the invited person, only in the response that created it. */
export interface InvitationView {
  invitationId: string;
  role: "admin" | "member" | "owner" | "viewer";
  externalId?: string;
  displayName?: string;
  createdBy: string;
  createdAt: number;
  expiresAt: number;
  acceptedAt?: number;
  revokedAt?: number;
  userId?: string;
  link?: string;
}

export interface InvitationViewPage {
  items: InvitationView[];
  nextCursor?: string;
}

/** A file that is no text: base64. */
export interface JobFile {
  data: string;
}

/** A key as it is shown. `key` is the key itself, only in the response that created it. */
export interface KeyView {
  keyId: string;
  tenantId: string;
  name: string;
  userId?: string;
  permissions: string[];
  containers?: string[];
  expiresAt?: number;
  createdBy: string;
  createdAt: number;
  lastUsedAt?: number;
  revokedAt?: number;
  key?: string;
}

export interface KeyViewPage {
  items: KeyView[];
  nextCursor?: string;
}

export interface LinePage {
  items: Line[];
  nextCursor?: string;
}

/** A version that an image was built from. */
export interface LockRecord {
  uri: string;
  version: string;
  digest: string;
}

/** A page of the log, with the nodes that were asked and have not answered. */
export interface LogEntries {
  items: LogEntry[];
  nextCursor?: string;
  silentNodes?: SilentNode[];
}

/** A note, and where it comes from. */
export interface Memory {
  memoryId: string;
  text: string;
  by: "agent" | "user";
  proposed?: boolean;
  pinned?: boolean;
  sessionId?: string;
  messageId?: string;
  createdAt: number;
  updatedAt: number;
}

export interface MemoryDeleteReply {
  memoryId: string;
}

export interface MemoryPage {
  containerId: string;
  items: Memory[];
}

/** The answer of a turn. Without an `outcome` the turn continues: `wait` was false, or tool calls wait for an answer */
export interface MessageAnswer {
  sessionId: string;
  turnId: string;
  imageId?: string;
  messageId?: string;
  text?: string;
  citations?: Citation[];
  output?: unknown;
  outcome?: "completed" | "failed" | "interrupted";
  stopReason?: "end_turn" | "error" | "interrupted" | "max_tokens" | "refusal" | "stop_sequence";
  usage?: Usage;
  price?: number;
  error?: TurnFailure;
  waits?: string[];
}

/** `nextCursor` continues in the same order, `previousCursor` in the other. */
export interface MessagesPage {
  sessionId: string;
  items: (UserMessage | AssistantMessage | ToolCallMessage | ToolResultMessage | ErrorMessage)[];
  total: number;
  turns?: TurnRow[];
  nextCursor?: string;
  previousCursor?: string;
  logCursor?: string;
}

/** Samples in the order of their time. Nothing is known from before `since`, the start of the process. */
export interface MetricSeries {
  since: number;
  intervalSeconds: number;
  at: number[];
  columns: SeriesColumns;
}

export interface ModelViewPage {
  items: ModelView[];
  nextCursor?: string;
}

/** A query or a body without fields. */
export interface NoFields {
}

/** The address at the identity provider to go to. */
export interface OidcAddress {
  location: string;
}

/** The result of a change, or with `dryRun` of one that was not made. */
export interface OutcomeView {
  revision: number;
  changed: Changed[];
  live: string[];
  restartRequired: string[];
  dryRun?: boolean;
}

/** The form of an answer: JSON that fits a schema. `name` describes the value to the model. */
export interface OutputFormat {
  name: string;
  schema: Record<string, unknown>;
}

/** The data that is deleted with a container, a user or a tenant. */
export interface OwnedRecord {
  containers: string[];
  sessions: number;
  messages: number;
  bytes: number;
  attachments: number;
  resources: number;
  keptResources: number;
  users: number;
  keys: number;
  secrets: number;
}

/** A passage: the characters from `start` to before `end` of a document; `cite` opens it again. */
export interface PassageView {
  cite: string;
  uri: string;
  document: string;
  start: number;
  end: number;
  text: string;
  title?: string;
  heading?: string;
  page?: number;
}

/** `uri` names the version that has these tools; it is a new one if `created`. */
export interface PinView {
  uri: string;
  created: boolean;
  tools: ToolChange[];
  warnings?: string[];
}

/** An entry of a stored lock, as `Resolved.lock` gave it. */
export interface Pinned {
  uri: string;
  digest: string;
}

/** How a user likes the console; None leaves the choice to the browser. */
export interface Preferences {
  language?: "en" | "zh";
  theme?: "dark" | "light";
  sendKey?: "enter" | "modifier";
  density?: "dense" | "regular";
  shortcuts?: "off" | "on";
}

export interface ProviderHealthPage {
  items: ProviderHealth[];
  nextCursor?: string;
}

/** One question of a tool: a form with a schema, or a page that the user has to visit. */
export interface Question {
  mode: "form" | "url";
  message: string;
  schema?: Record<string, unknown>;
  url?: string;
}

/** `used` is absent where nothing was counted yet. `resetAt` is the end of the window, for a metric that has one. */
export interface QuotaView {
  metric: string;
  userId?: string;
  eachUser?: boolean;
  source?: "eachUser" | "plan" | "tenant" | "user";
  hard?: number;
  soft?: number;
  used?: number;
  resetAt?: number;
}

export interface QuotaViewPage {
  items: QuotaView[];
  nextCursor?: string;
}

export interface RawPage {
  items: unknown[];
  nextCursor?: string;
}

/** `allExplained` says whether entries of the ledger account for every difference. */
export interface Reconciliation {
  groups: ReconciledGroup[];
  provider: Usage;
  ledger: Usage;
  leftOut?: Record<string, number>;
  allExplained: boolean;
}

/** `uri` names the exact version. `created` is whether it is new. */
export interface RegisteredView {
  id: string;
  uri: string;
  version: string;
  digest: string;
  resource: ResourceRecord;
  warnings?: string[];
  created?: boolean;
}

export interface Report {
  items: UsageView[];
}

/** The resolved URI. `rendered` is the rendered form of its kind: a prompt's text, a tool's spec, an agent's definition. */
export interface Resolved {
  uri: string;
  resolved: string;
  digest: string;
  type: "agents" | "knowledge" | "prompts" | "sandboxes" | "skills" | "tools";
  manifest: Manifest;
  schema?: Record<string, unknown>;
  content?: unknown;
  rendered?: unknown;
  dependencies?: Dependency[];
  lock?: Locked[];
  warnings?: Warned[];
}

export interface ResolvedMany {
  items: ResolvedItem[];
}

/** `total` counts all pages. */
export interface ResourcePage {
  items: ResourceRecord[];
  total: number;
  nextCursor?: string;
}

/** A resource without its content. `uses` is how many images and versions are locked to it. */
export interface ResourceRecord {
  id: string;
  uri: string;
  type: "agents" | "knowledge" | "prompts" | "sandboxes" | "skills" | "tools";
  owner: string;
  name: string;
  visibility: "private" | "public";
  createdAt: number;
  updatedAt: number;
  latest?: string;
  description?: string;
  tags?: string[];
  deprecated?: string;
  uses?: number;
}

/** `policy` is in force; `due` counts the sessions that it would delete now, or the requested days would. */
export interface RetentionView {
  tenantId: string;
  policy: PolicyView;
  due: DueView;
}

/** Messages that were rewound together, and are kept. */
export interface Rewind {
  rewindId: string;
  rewoundAt: number;
  messages: number;
}

export interface RewindPage {
  sessionId: string;
  items: Rewind[];
}

/** The messages that were removed. Without `rewindId` there were none. */
export interface Rewound {
  sessionId: string;
  messageIds: string[];
  rewindId?: string;
}

export interface RunPage {
  items: RunRecord[];
}

/** A run with the outcome of its turn; None while that continues. */
export interface RunRecord {
  dueAt: number;
  at: number;
  state: "failed" | "missed" | "skipped" | "started";
  reason?: string;
  count?: number;
  sessionId?: string;
  turnId?: string;
  number: number;
  outcome?: "completed" | "failed" | "interrupted";
}

/** Limits of a sandbox. The server chooses an absent one. */
export interface SandboxLimits {
  timeoutMs?: number | null;
  memoryBytes?: number | null;
  cpuSeconds?: number | null;
  processes?: number | null;
  fileBytes?: number | null;
  outputBytes?: number | null;
}

/** `exitCode` is absent for a program that was killed. `files` are those that were added or changed. */
export interface SandboxOutcome {
  exitCode?: number;
  signal?: string;
  stdout: string;
  stderr: string;
  truncated: boolean;
  timedOut: boolean;
  oom: boolean;
  durationMs: number;
  usage: JobUsage;
  value?: unknown;
  files: Record<string, string | JobFile>;
  deleted: string[];
  executable: string[];
  leftOut: number;
  placed: SandboxFound;
}

export interface SchedulePage {
  items: ScheduleView[];
  nextCursor?: string;
}

/** A schedule. `nextAt` is its next time, `upcoming` that and the ones after it; none while it is disabled. */
export interface ScheduleView {
  name: string;
  containerId: string;
  imageId: string;
  message: string;
  sessionMode: "new" | "same";
  sessionId?: string;
  onAsk: "deny" | "wait";
  budget?: TurnBudget;
  runsPerDay?: number;
  enabled: boolean;
  disabledReason?: "agent_gone" | "session_gone";
  createdBy: string;
  createdAt: number;
  updatedAt: number;
  lastAt?: number;
  lastTurnId?: string;
  scheduleId: string;
  cron: string;
  zone: string;
  missed: "all" | "once" | "skip";
  catchUp: number;
  catchUpSeconds: number;
  overlap: "queue" | "skip";
  jitterSeconds: number;
  nextAt?: number;
  upcoming?: number[];
}

export interface SecretViewPage {
  items: SecretView[];
  nextCursor?: string;
}

/** One message of the history. `toolCalls` are those of an assistant's message, `toolCallId` is for a tool's result. */
export interface SeedMessage {
  role: "assistant" | "tool" | "user";
  content?: string | (TextPart | ImagePart | FilePart)[];
  toolCalls?: ToolCall[];
  toolCallId?: string | null;
}

/** Every step from the first to the last, including those without usage. */
export interface Series {
  by: "day" | "hour" | "month";
  items: Point[];
}

/** The metrics of the whole server since its start. */
export interface ServerMetrics {
  scope: "server";
  requests: RequestReport;
  turns: TurnReport;
  models: ModelReport[];
  retries: number;
  fallbacks: number;
  tools: ToolReport[];
  latency: LatencyReport;
  active: ActiveReport;
  queues: QueueReport;
  evictedAgents: number;
  quarantinedSessions: number;
  providers: ProviderHealth[];
  process: ProcessReport;
}

/** The status of a server. In a cluster with `nodes` the worst of theirs; a node that does not answer is a warning. */
export interface ServerStatus {
  status: "fail" | "ok" | "warn";
  version: string;
  uptimeSeconds: number;
  checks: Check[];
  nodes?: NodeStatus[];
}

export interface Session {
  sessionId: string;
  imageId: string;
  containerId: string;
  title: string | null;
  createdAt: number;
  updatedAt: number;
  quarantine?: string;
  pinnedAt?: number;
  archivedAt?: number;
  deletedAt?: number;
  forkedFrom?: Fork;
  lastMessageAt?: number;
  preview?: string;
  agent?: string;
  parent?: ParentCall;
}

/** A file of a session. `digest` names its bytes. */
export interface SessionFile {
  path: string;
  digest: string;
  size: number;
  executable?: boolean;
  tainted?: boolean;
  modifiedAt: number;
}

export interface SessionFilesPage {
  items: SessionFile[];
  nextCursor?: string;
}

/** A session as the principal sees it. `unread` counts the answers since their last read mark, at most 1,000. */
export interface SessionRecord {
  sessionId: string;
  imageId: string;
  containerId: string;
  title: string | null;
  createdAt: number;
  updatedAt: number;
  quarantine?: string;
  pinnedAt?: number;
  archivedAt?: number;
  deletedAt?: number;
  forkedFrom?: Fork;
  lastMessageAt?: number;
  preview?: string;
  agent?: string;
  parent?: ParentCall;
  unread: number;
  cursor?: string;
  restorableUntil?: number;
}

/** `total` counts all pages, up to 10,000 sessions. */
export interface SessionsPage {
  items: SessionRecord[];
  total: number;
  nextCursor?: string;
}

/** One setting. `value` is absent when it is not set and has no default; `layers` are ordered by precedence, lowest first. */
export interface SettingView {
  key: string;
  value?: unknown;
  effective?: unknown;
  source?: string;
  why?: string;
  layer?: string;
  place?: string;
  actor?: string;
  at?: number;
  default?: unknown;
  type: string;
  doc: string;
  applies: string;
  tenant: string;
  secret?: boolean;
  variable?: string;
  restartPending?: boolean;
  layers?: SourceView[];
}

/** A link to a conversation. Messages after `createdAt` are not shown. */
export interface Share {
  shareId: string;
  sessionId: string;
  containerId: string;
  createdBy: string;
  createdAt: number;
  expiresAt?: number;
}

export interface ShareList {
  items: Share[];
}

/** A part of a conversation, the oldest message first. */
export interface SharedPage {
  title?: string;
  createdAt: number;
  expiresAt?: number;
  items: SharedMessage[];
  nextCursor?: string;
}

export interface SocketToken {
  token: string;
  expiresAt: number;
}

/** Accepted and stored; the answer comes as events, all of them after `cursor`. */
export interface Spoken {
  agentId: string;
  imageId?: string;
  messageId?: string;
  turnId?: string;
  sessionId?: string;
  cursor?: string;
}

/** The turn that was begun; `isNew` is false for one that an earlier request began. */
export interface StartedRun {
  sessionId: string;
  turnId: string;
  isNew: boolean;
}

/** A summary of a session up to and including the exchange of that message. The messages stay. */
export interface Summary {
  summaryId: string;
  messageId: string;
  text: string;
  tokens: number;
  model: string;
  madeAt: number;
  userId?: string;
  tainted?: boolean;
}

/** The newest first; that one goes into prompts, with the messages since. */
export interface SummaryPage {
  sessionId: string;
  items: Summary[];
}

export interface TenantMarginPage {
  items: TenantMargin[];
  nextCursor?: string;
}

/** The metrics of one tenant, or of one of its users: usage of the ledger, and running turns. */
export interface TenantMetrics {
  scope: "tenant" | "user";
  turnsRunning: number;
  messagesWaiting: number;
  connections: number;
  today: UsageRow;
  month: UsageRow;
  total: UsageRow;
}

export interface TenantView {
  tenantId: string;
  slug: string;
  name: string;
  description?: string;
  status: "active" | "suspended";
  plan?: string;
  createdAt: number;
  updatedAt: number;
}

export interface TenantViewPage {
  items: TenantView[];
  nextCursor?: string;
}

export interface TextPart {
  type: "text";
  text: string;
}

export interface TiersFound {
  tiers: TierView[];
}

/** One turn. */
export interface Timeline {
  turnId: string;
  sessionId: string;
  containerId: string;
  imageId: string;
  messageId: string;
  userId?: string;
  acceptedAt: number;
  endedAt?: number;
  outcome?: "completed" | "failed" | "interrupted";
  stopReason?: string;
  duration: number;
  usage: Usage;
  cost: number;
  price: number;
  calls: CallStep[];
  tools: ToolStep[];
  moments: Moment[];
  stages?: Stages;
  complete: boolean;
}

/** A session whose title matches a search. `at` is the time of its last message. */
export interface TitleRecord {
  sessionId: string;
  imageId: string;
  containerId: string;
  title: string;
  at: number;
  snippet: string;
}

/** The turn continues by itself; its events tell how. */
export interface ToolAnswerReply {
  waitId: string;
  turnId: string;
  decision: "answer" | "approve" | "deny" | "edit";
}

export interface ToolCallMessage {
  subtype: "tool-call";
  id: string;
  timestamp: number;
  turnId?: string;
  role: "assistant";
  toolCall: ToolCall;
  parentId: string;
}

/** `policy` is the rule that decided about the call, `why` the verdict on each tier. */
export interface ToolExplanation {
  turnId: string;
  callId: string;
  tool: string;
  policy: string;
  tier?: "container" | "inline" | "isolate" | "process" | "remote";
  price?: number;
  startMs?: number;
  why?: string[][];
  sessionId?: string;
}

/** `output` is the result as a model receives it; an error of the tool is a result. */
export interface ToolInvocation {
  tool: string;
  output: TextOutput | JsonOutput | ContentOutput | ErrorTextOutput | ErrorJsonOutput | DeniedOutput;
  durationMs: number;
  policy: string;
  tier?: "container" | "inline" | "isolate" | "process" | "remote";
  why?: string[][];
}

export interface ToolResultMessage {
  subtype: "tool-result";
  id: string;
  timestamp: number;
  turnId?: string;
  role: "tool";
  toolCallId: string;
  toolResult: ToolResult;
}

export interface TriggerPage {
  items: TriggerView[];
  nextCursor?: string;
}

/** A trigger. `secret` signs requests, only in the response that created it. */
export interface TriggerView {
  name: string;
  containerId: string;
  imageId: string;
  message: string;
  sessionMode: "new" | "same";
  sessionId?: string;
  onAsk: "deny" | "wait";
  budget?: TurnBudget;
  runsPerDay?: number;
  enabled: boolean;
  disabledReason?: "agent_gone" | "session_gone";
  createdBy: string;
  createdAt: number;
  updatedAt: number;
  lastAt?: number;
  lastTurnId?: string;
  triggerId: string;
  path: string;
  secret?: string;
}

/** Bounds of one turn besides those of its tenant; the lower of both counts. */
export interface TurnBudget {
  steps?: number | null;
  tokens?: number | null;
  cost?: number | null;
  toolCalls?: number | null;
}

/** Values that the sender of a message chose for its turn instead of the definition's. */
export interface TurnOptions {
  model?: string | null;
  temperature?: number | null;
  maxTokens?: number | null;
  thinking?: number | null;
  stop?: string[];
  instructions?: string | null;
  tools?: ClientTool[];
  toolChoice?: string | null;
  output?: OutputFormat | null;
  clientData?: string | null;
}

/** The reason and the bounds of a turn that was not begun by a person. */
export interface TurnOrigin {
  kind: "agent" | "schedule" | "trigger";
  id: string;
  unattended?: boolean;
  budget?: TurnBudget;
  parent?: ParentCall;
  callers?: string[];
}

/** A turn in a list. `price` is the tenant's price with sub-agents, in nano-USD; `model` answered last. */
export interface TurnRow {
  turnId: string;
  containerId: string;
  imageId: string;
  sessionId: string;
  messageId: string;
  acceptedAt: number;
  outcome?: "completed" | "failed" | "interrupted";
  usage?: Usage;
  endedAt?: number;
  clientKey?: string;
  attempts?: number;
  userId?: string;
  keyId?: string;
  alongside?: number;
  parkedAt?: number;
  activeMs?: number;
  onParked?: "queue" | "reject" | "supersede";
  options?: TurnOptions;
  origin?: TurnOrigin;
  price?: number;
  model?: string;
  nodeId?: number;
}

export interface TurnRowPage {
  items: TurnRow[];
  nextCursor?: string;
}

export interface TypesView {
  items: TypeDescription[];
}

/** `diff` lists the fields of the definition that differ. `applied` is false for a dry run, and when nothing changed. */
export interface UpgradeView {
  image: ImageRecord;
  changes: ImageChange[];
  diff: Record<string, ImageDifference>;
  applied: boolean;
  warnings?: string[];
}

/** Tokens of one model call, or one turn. `estimated` when the provider did not report them. */
export interface Usage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  thinkingTokens?: number;
  webSearches?: number;
  estimated?: boolean;
}

export interface UserMessage {
  subtype: "user";
  id: string;
  timestamp: number;
  turnId?: string;
  role: "user";
  content: string | (TextPart | ImagePart | FilePart)[];
  tainted?: boolean;
}

export interface UserView {
  userId: string;
  tenantId: string;
  externalId: string;
  displayName?: string;
  role: "admin" | "member" | "owner" | "viewer";
  status: "active" | "suspended";
  createdAt: number;
  updatedAt: number;
  isLastOwner?: boolean;
}

export interface UserViewPage {
  items: UserView[];
  nextCursor?: string;
}

export interface VersionView {
  version: string;
  digest: string;
  size: number;
  createdAt: number;
  yankedAt?: number;
  createdBy?: string;
}

/** Highest first. `pointers` are tags and the versions they point to; `latest` is among them, if there is one. */
export interface VersionsView {
  items: VersionView[];
  pointers: Record<string, string>;
}

/** `path` is the page of the link on this server, such as `/answer/…`; it is shown once. */
export interface WaitLinkReply {
  waitId: string;
  path: string;
  expiresAt: number;
}

export interface WaitPage {
  items: WaitView[];
  nextCursor?: string;
}

/** A tool call that waits or has waited. Without `sessions:read` its content is left out: `input` to `answer`. */
export interface WaitView {
  waitId: string;
  containerId: string;
  sessionId: string;
  turnId: string;
  callId: string;
  round: number;
  kind: "approval" | "child" | "client" | "consent" | "elicitation" | "question" | "timer";
  tool: string;
  version: string;
  fingerprint: string;
  decisions: ("answer" | "approve" | "deny" | "edit")[];
  why: string;
  audience: string;
  notSender: boolean;
  mayRemember: boolean;
  held?: boolean;
  askedAt: number;
  expiresAt: number;
  sender?: string;
  answeredAt?: number;
  answeredBy?: string;
  startedAt?: number;
  input?: Record<string, unknown>;
  questions?: Record<string, Question>;
  url?: string;
  answer?: WaitAnswer;
}

/** A tenant without any credit ever is not `prepaid`, and no request is refused for lack of money. */
export interface WalletView {
  balance: number;
  credited: number;
  spent: number;
  prepaid: boolean;
}

/** A webhook. `secret` verifies signatures, only in the response that created it. */
export interface WebhookView {
  webhookId: string;
  url: string;
  events: ("quota.warning" | "session.created" | "turn.completed" | "turn.failed" | "turn.interrupted" | "wait.created")[];
  description?: string;
  enabled: boolean;
  createdBy: string;
  createdAt: number;
  updatedAt: number;
  failingSince?: number;
  disabledAt?: number;
  disabledReason?: "failing" | "gone";
  secret?: string;
}

export interface WebhookViewPage {
  items: WebhookView[];
  nextCursor?: string;
}

/** The identity of a caller. `containers` is absent for a key that reaches all containers of its tenant. */
export interface Whoami {
  tenantId: string;
  tenant?: string;
  userId?: string;
  user?: string;
  role?: string;
  keyId?: string;
  permissions: string[];
  containers?: string[];
  expiresAt?: number;
  auth: string;
}

export interface ActiveReport {
  agents: number;
  containers: number;
  connections: number;
  turns: number;
}

export interface AuditView {
  at: number;
  tenantId: string;
  actor: string;
  action: string;
  target: string;
  result: string;
  address?: string;
  requestId?: string;
  number: number;
}

/** An item of a bill. */
export interface BillLine {
  name: string;
  amount: number;
  unit: string;
  price: number;
  source: string;
  by?: string;
}

export interface BoundView {
  containerId: string;
}

/** A tool of the server itself. `unavailable` is why it cannot run on this machine. */
export interface BuiltinToolView {
  name: string;
  description: string;
  inputSchema: Record<string, unknown>;
  isDefault?: boolean;
  unavailable?: string;
}

/** One model call. Without `endedAt` it is running, or was cut off by a crash. */
export interface CallStep {
  callId: string;
  provider?: string;
  model?: string;
  answeredBy?: string;
  askedAt?: number;
  startedAt?: number;
  firstTokenAt?: number;
  endedAt?: number;
  attempt?: number;
  stopReason?: string;
  usage?: Usage;
  cost?: number;
  price?: number;
}

/** Tokens of a call. */
export interface CallUsage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  estimated?: boolean;
}

/** One change. The values before it are in earlier changes. */
export interface ChangeView {
  revision: number;
  at: number;
  actor: string;
  requestId?: string;
  note?: string;
  changes: Changed[];
}

/** `from` and `to` are absent where this layer had, or has, no value. */
export interface Changed {
  key: string;
  from?: unknown;
  to?: unknown;
}

/** An adapter that is installed: a platform. */
export interface ChannelKind {
  name: string;
  title: string;
  description: string;
  fields: SettingField[];
}

/** `since` is when the state began. `remedy` is the remedy of the last error, if one is known. */
export interface ChannelStatus {
  state: "connected" | "connecting" | "off" | "refused" | "waiting";
  since?: number;
  lastError?: string;
  lastErrorAt?: number;
  remedy?: string;
  hook?: string;
}

/** One health check. `message` is for people. */
export interface Check {
  name: string;
  status: "fail" | "ok" | "warn";
  message: string;
  nodeId?: number;
}

/** A passage that an answer names as `[n]`; `cite` opens exactly its range. */
export interface Citation {
  n: number;
  cite: string;
}

/** A tool that the sender of a message runs by itself: the turn waits for its result. */
export interface ClientTool {
  name: string;
  description?: string;
  parameters?: Record<string, unknown>;
}

/** One start of a server. `nodeId` is 0 for a server that has its database alone. */
export interface ClusterNode {
  nodeId: number;
  name: string;
  version: string;
  state: "dead" | "gone" | "up";
  startedAt: number;
  runs: number;
  sockets: number;
  loopLagMs: number;
  skewMs: number;
  isOnBus?: boolean;
  hindrance?: string;
  isAsked?: boolean;
  isLeading?: boolean;
}

/** A server that a user is connected to, and since when. */
export interface ConnectionView {
  server: string;
  since: number;
}

export interface ContainerNameView {
  containerId: string;
}

/** Texts, pictures and files in the order of the tool. Bytes are attachments of the container: `attachment:sha256:…`. */
export interface ContentOutput {
  type: "content";
  value: (TextPart | ImagePart | FilePart | LinkPart)[];
}

/** The database of a server. `lagMs` is how far the slowest standby is behind; absent if that is not known. */
export interface DatabaseState {
  engine: "postgresql" | "sqlite";
  version: string;
  name: string;
  standbys?: number;
  lagMs?: number;
}

/** The call was not made. Servers before `reason` wrote the same into `value`. */
export interface DeniedOutput {
  type: "execution-denied";
  reason?: string;
  value?: string;
}

/** A version that another was locked to. `content` only with `expand=closure`. */
export interface Dependency {
  uri: string;
  resolved: string;
  digest: string;
  type: "agents" | "knowledge" | "prompts" | "sandboxes" | "skills" | "tools";
  content?: unknown;
}

/** `uri` as it was written; `depth` is the smallest number of steps to it. */
export interface DependencyView {
  uri: string;
  resolved: string;
  digest: string;
  depth: number;
}

export interface DependentView {
  resource: ResourceRecord;
  version: string;
}

/** A document that cannot be searched, and the reason. */
export interface DocumentProblem {
  document: string;
  problem: string;
}

/** `emptied` counts default sessions of images, which are kept without their messages. */
export interface DueView {
  sessions: number;
  emptied: number;
  messages: number;
  bytes: number;
}

/** How an image answers: its definition with its config applied and every reference followed. */
export interface EffectiveConfig {
  model: string;
  maxTokens: number;
  tools: string[];
  limits?: TurnLimits;
  systemPrompt?: string;
  temperature?: number;
  thinking?: number;
  output?: OutputFormat;
  ownKey?: boolean;
  variables?: Record<string, unknown>;
  sandbox?: string;
  knowledge?: string[];
  skills?: string[];
  agents?: string[];
  handoffs?: string[];
  policy?: PolicyRule[];
  unavailable?: string[];
}

export interface EntryView {
  key: string;
  at: number;
  tenantId: string;
  userId?: string;
  keyId?: string;
  containerId: string;
  imageId: string;
  sessionId: string;
  turnId: string;
  driver: string;
  model: string;
  usage: Usage;
  cost?: number;
  price?: number;
  wallMs?: number;
  cpuMs?: number;
  number: number;
}

/** An erasure of a container, of a user's traces in containers of others, of the words of a `target`, or else of a tenant. */
export interface ErasureView {
  tenantId: string;
  containerId?: string;
  userId?: string;
  target?: string;
  askedAt: number;
  emptied: boolean;
}

/** Errors of one tenant with the same code, event and place. */
export interface ErrorGroup {
  code: string;
  event: string;
  where: string;
  count: number;
  firstAt: number;
  lastAt: number;
  tenantId?: string;
  lastNumber: number;
  lastRequestId?: string;
  lastSessionId?: string;
  lastTurnId?: string;
  nodes?: number[];
}

export interface ErrorJsonOutput {
  type: "error-json";
  value: unknown;
}

export interface ErrorTextOutput {
  type: "error-text";
  value: string;
}

export interface FeedbackView {
  turnId: string;
  sessionId: string;
  author: string;
  rating: "down" | "up";
  note?: string;
  at: number;
  number: number;
}

/** The origin of a forked history: that session, up to and including that message. */
export interface Fork {
  sessionId: string;
  messageId: string;
}

/** Counts of an import. A manifest does not have the last three, so that older servers read it. */
export interface ImportCounts {
  images: number;
  sessions: number;
  messages: number;
  turns: number;
  blobs: number;
  memories: number;
  schedules: number;
  triggers: number;
}

/** The result for one entry: the version that exists now, or would exist after a dry run. */
export interface ImportedEntry {
  uri: string;
  type: "agents" | "knowledge" | "prompts" | "sandboxes" | "skills" | "tools";
  name: string;
  version: string;
  digest: string;
  outcome: "conflict" | "created" | "renumbered" | "skipped" | "unchanged";
  isNewResource?: boolean;
}

export interface JobUsage {
  cpuMs?: number;
  maxRssBytes?: number;
}

export interface JsonOutput {
  type: "json";
  value: unknown;
}

/** Latencies of the stages of turns, and of requests. */
export interface LatencyReport {
  turn: Latency;
  firstToken: Latency;
  queue: Latency;
  modelFirstToken: Latency;
  modelCall: Latency;
  tool: Latency;
  commit: Latency;
  fanout: Latency;
  command: Latency;
  http: Latency;
}

/** One line of a statement: a credit, or the usage of a day. The amounts of all lines add up to the balance. */
export interface Line {
  kind: "credit" | "usage";
  at: number;
  amount: number;
  reference: string;
  note?: string;
  actor?: string;
  calls?: number;
}

/** One entry of a lock: the exact version and its digest. */
export interface Locked {
  uri: string;
  version: string;
  digest: string;
  versionId: string;
  written?: string[];
}

/** One entry. `number` grows with each entry, also across restarts; `facts` are the details of the event. */
export interface LogEntry {
  number: number;
  at: number;
  level: "critical" | "debug" | "error" | "info" | "warning";
  event: string;
  logger: string;
  requestId?: string;
  tenantId?: string;
  userId?: string;
  containerId?: string;
  sessionId?: string;
  turnId?: string;
  facts?: Record<string, unknown>;
  raised?: Raised;
  nodeId?: number;
}

/** The facts about a version besides its content. */
export interface Manifest {
  resourceId: string;
  type: "agents" | "knowledge" | "prompts" | "sandboxes" | "skills" | "tools";
  owner: string;
  name: string;
  version: string;
  size: number;
  visibility: "private" | "public";
  createdAt: number;
  description?: string;
  tags?: string[];
  deprecated?: string;
  dependencies?: Record<string, string>;
}

export interface ModelReport {
  provider: string;
  model: string;
  calls: number;
  completed: number;
  interrupted: number;
  failed: number;
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  thinkingTokens: number;
  estimatedCalls: number;
  unpricedCalls: number;
  cost: number;
  price: number;
}

/** A model that an agent can have. `pictures` and `tools` are absent where only the model's file tells. */
export interface ModelView {
  name: string;
  provider: string;
  driver: string;
  window: number;
  isDefault?: boolean;
  ownKey?: boolean;
  pictures?: boolean;
  tools?: boolean;
  price?: ModelPrice;
  demo?: boolean;
}

/** One event of a turn, with its details. */
export interface Moment {
  at: number;
  what: "accepted" | "ended" | "failed" | "fallback" | "interrupted" | "parked" | "queued" | "resumed" | "suspended";
  details?: Record<string, string | number>;
}

/** A coefficient as a reader of a bill sees it. */
export interface NamedMeasure {
  value: number;
  unit: string;
  source: string;
  name: string;
}

/** The sums of all things that a workload takes from its servers. */
export interface Needs {
  serverCores: Requirement;
  toolCores: Requirement;
  memory: Requirement;
  disk: Requirement;
  diskSyncs: Requirement;
  backup: Requirement;
  traffic: Requirement;
}

/** The metrics of a node, or why it has not answered. */
export interface NodeMetrics {
  nodeId: number;
  name: string;
  metrics?: ServerMetrics;
  error?: string;
}

/** The status of a node, or why it has not answered. */
export interface NodeStatus {
  nodeId: number;
  name: string;
  status?: Status;
  error?: string;
}

/** The call of an agent's tool that a session is the work of: such a session is in no list, and goes with its root. */
export interface ParentCall {
  sessionId: string;
  turnId: string;
  callId: string;
  rootSession: string;
  rootTurn: string;
}

/** The bill of another platform for the same turns. */
export interface PeerBill {
  name: string;
  price: number;
  ratio: number | null;
  source: string;
}

/** One step; `at` is its beginning. */
export interface Point {
  tenantId?: string;
  userId?: string;
  keyId?: string;
  containerId?: string;
  imageId?: string;
  sessionId?: string;
  driver?: string;
  model?: string;
  hour?: string;
  day?: string;
  month?: string;
  calls: number;
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  thinkingTokens: number;
  webSearches?: number;
  estimatedCalls: number;
  unpricedCalls: number;
  cost: number;
  price: number;
  wallMs?: number;
  margin?: number;
  at: number;
}

/** A rule. A call has to match every given member; the first rule of a layer that matches decides for the layer. */
export interface PolicyRule {
  do: "allow" | "ask" | "deny";
  tool?: string | null;
  runtime?: "agent" | "builtin" | "client" | "command" | "http" | "javascript" | "mcp" | "openapi" | "provider" | "python" | "shell" | null;
  effect?: "destructive" | "read" | "write" | null;
  world?: "closed" | "open" | null;
  tier?: string | null;
  tainted?: boolean | null;
  unattended?: boolean | null;
  when?: Record<string, Condition> | null;
  ask?: Approval | null;
}

/** Numbers of days; null for never. `archivedDays` is null when archived sessions are kept as long as others. */
export interface PolicyView {
  sessionDays: number | null;
  archivedDays: number | null;
  statelessDays: number | null;
  rewoundDays: number | null;
  messageDays: number | null;
}

export interface ProcessReport {
  version: string;
  uptimeSeconds: number;
  loopLagMs: number;
  rssBytes: number;
  openFiles?: number;
  databaseBytes: number;
  walBytes: number;
  diskFreeBytes?: number;
  storeWritable: boolean;
}

/** A message as its provider wrote it, with the results of the provider's own tools. Opaque: it goes back unchanged. */
export interface ProviderContent {
  provider: string;
  blocks: string;
  container?: string;
}

/** The state of a provider, for people. Times are ms since 1970; no field is secret. */
export interface ProviderHealth {
  name: string;
  driver: string;
  defaultModel: string;
  baseUrl?: string;
  role?: "default" | "fallback";
  state: "down" | "limited" | "ok" | "unknown";
  since?: number;
  lastError?: string;
  retryAt?: number;
  calls?: number;
  failures?: number;
  consecutiveFailures: number;
  lastSuccessAt?: number;
}

export interface QueueReport {
  inbox: number;
  journal: number;
  database: number;
}

/** One model on one day. */
export interface ReconciledGroup {
  day: string;
  model: string;
  verdict: "both differ" | "equal" | "ledger has more" | "only in export" | "only in ledger" | "provider has more";
  explained: boolean;
  provider: Usage;
  ledger: Usage;
  calls?: number;
  estimatedCalls?: number;
  edgeCalls?: number;
  freeCalls?: number;
  reasons?: string[];
}

/** The resolved references of a definition at the build of its image, besides the system prompt. */
export interface Rendered {
  tools?: Record<string, unknown>[];
  sandbox?: Record<string, unknown> | null;
  knowledge?: Record<string, unknown>[];
  skills?: Record<string, unknown>[];
  agents?: Record<string, Definition>;
  handoffs?: string[];
  home?: string | null;
  callers?: PolicyRule[][];
}

export interface RequestReport {
  commands: CommandReport[];
  http: HttpReport[];
}

/** The result of one URI: `resolved` or `error`. */
export interface ResolvedItem {
  uri: string;
  resolved?: Resolved;
  error?: ResolveFailure;
}

/** The tier that ran the code, and the verdict on each: `[["process", "chosen"]]`. */
export interface SandboxFound {
  tier: string;
  why?: [string, string][];
}

export interface SecretView {
  name: string;
  updatedAt: number;
}

/** The bill of the workload with one assumption changed. */
export interface Sensitivity {
  change: string;
  price: number | null;
}

/** One value for each sample; null without an observation. Durations in ms, sizes in bytes. */
export interface SeriesColumns {
  turnsCompleted: (number | null)[];
  turnsFailed: (number | null)[];
  turnsInterrupted: (number | null)[];
  turnsRunning: (number | null)[];
  messagesWaiting: (number | null)[];
  firstTokenP50: (number | null)[];
  firstTokenP95: (number | null)[];
  queueP50: (number | null)[];
  modelFirstTokenP50: (number | null)[];
  modelCallP50: (number | null)[];
  toolP50: (number | null)[];
  commitP95: (number | null)[];
  fanoutP95: (number | null)[];
  loopLagMs: (number | null)[];
  journalWaiting: (number | null)[];
  databaseWaiting: (number | null)[];
  rssBytes: (number | null)[];
  databaseBytes: (number | null)[];
  walBytes: (number | null)[];
  diskFreeBytes: (number | null)[];
  connections: (number | null)[];
  agents: (number | null)[];
  modelCalls: (number | null)[];
  price: (number | null)[];
}

/** A question or an answer. Thinking, calls of tools and files are not shown. */
export interface SharedMessage {
  messageId: string;
  role: "assistant" | "user";
  text: string;
  at: number;
}

/** A node that is up and has not answered. */
export interface SilentNode {
  nodeId: number;
  name: string;
  error: string;
}

/** The value of one layer. */
export interface SourceView {
  layer: string;
  value: unknown;
  place?: string;
  actor?: string;
  at?: number;
}

/** The time in each stage, in ms; the sum is the duration. */
export interface Stages {
  queue?: number;
  wait?: number;
  stream?: number;
  tools?: number;
  other?: number;
  away?: number;
}

/** The money of one tenant in a period, in nano-USD. `margin` is the price of its calls minus their cost. */
export interface TenantMargin {
  tenantId: string;
  slug: string;
  price: number;
  cost: number;
  margin: number;
  sandboxMs?: number;
  saved?: number;
}

export interface TextOutput {
  type: "text";
  value: string;
}

/** Reasoning of a model. `signature` lets the provider recognise its own reasoning when it is sent back. */
export interface ThinkingPart {
  type: "thinking";
  reasoning: string;
  signature?: string;
}

/** A tier of this server. `missing` names the requirements of a tier that cannot run here. */
export interface TierView {
  tier: "container" | "inline" | "isolate" | "process" | "remote";
  engines: string[];
  walls: string[];
  network: boolean;
  packages: boolean;
  persistent: boolean;
  missing?: string;
}

export interface ToolCall {
  type: "tool-call";
  id: string;
  name: string;
  input: Record<string, unknown>;
  problem?: string | null;
  byProvider?: boolean;
}

/** The difference of one tool between two readings of a set; `lines` has the removed and added lines, by member. */
export interface ToolChange {
  name: string;
  change: "added" | "changed" | "removed" | "same";
  pin?: string;
  lines?: Record<string, string>;
}

export interface ToolReport {
  name: string;
  completed: number;
  failed: number;
}

export interface ToolResult {
  type: "tool-result";
  id: string;
  name: string;
  output: TextOutput | JsonOutput | ContentOutput | ErrorTextOutput | ErrorJsonOutput | DeniedOutput;
  tainted?: boolean;
  agent?: string;
}

/** One tool call. It starts when the message that requests it is complete, or when the program `parentId` makes it. */
export interface ToolStep {
  toolId: string;
  parentId?: string;
  name: string;
  startedAt?: number;
  endedAt?: number;
  error?: string;
  policy?: string;
  tier?: "container" | "inline" | "isolate" | "process" | "remote";
  why?: [string, string][];
  sessionId?: string;
}

export interface TurnFailure {
  code: string;
  message: string;
}

export interface TurnReport {
  accepted: number;
  completed: number;
  interrupted: number;
  failed: number;
  resumed: number;
  suspended: number;
  successRate?: number;
  errors: Record<string, number>;
}

/** The description of a type in `GET /v1/resources/types`. */
export interface TypeDescription {
  type: "agents" | "knowledge" | "prompts" | "sandboxes" | "skills" | "tools";
  singular: string;
  description: string;
  schema: Record<string, unknown>;
}

/** A sum over ledger entries; the members that were not grouped by are absent. */
export interface UsageRow {
  tenantId?: string;
  userId?: string;
  keyId?: string;
  containerId?: string;
  imageId?: string;
  sessionId?: string;
  driver?: string;
  model?: string;
  hour?: string;
  day?: string;
  month?: string;
  calls: number;
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  thinkingTokens: number;
  webSearches?: number;
  estimatedCalls: number;
  unpricedCalls: number;
  cost: number;
  price: number;
  wallMs?: number;
}

/** `margin` is price minus cost, shown to the operator only. */
export interface UsageView {
  tenantId?: string;
  userId?: string;
  keyId?: string;
  containerId?: string;
  imageId?: string;
  sessionId?: string;
  driver?: string;
  model?: string;
  hour?: string;
  day?: string;
  month?: string;
  calls: number;
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
  cacheWriteTokens: number;
  thinkingTokens: number;
  webSearches?: number;
  estimatedCalls: number;
  unpricedCalls: number;
  cost: number;
  price: number;
  wallMs?: number;
  margin?: number;
}

/** The end of a wait. */
export interface WaitAnswer {
  decision: "answer" | "approve" | "deny" | "edit" | "expired" | "superseded";
  input?: Record<string, unknown>;
  result?: unknown;
  reason?: string;
  remember?: "image" | "session";
  clientKey?: string;
}

/** A warning for users of the resource; `code` is deprecated, yanked, duplicate or argument. */
export interface Warned {
  code: "argument" | "deprecated" | "duplicate" | "yanked";
  uri: string;
  message: string;
}

/** Users and their turns. The defaults are those of the price proof: a million users, thirty turns each a month. */
export interface Workload {
  users: number;
  turns: number;
  seconds: number;
  deltas: number;
  textBytes: number;
  connected: number;
  peak: number;
  tools: number;
  toolSeconds: number;
  visits: number;
  months: number;
}

/** The people who may approve a call, and the time that it waits. */
export interface Approval {
  audience?: string;
  notSender?: boolean;
  expires?: string;
  remember?: boolean;
}

export interface CommandReport {
  name: string;
  ok: number;
  refused: number;
}

/** A test of one value of a call's input; every given part must hold. */
export interface Condition {
  eq?: string | number | boolean | null;
  ne?: string | number | boolean | null;
  in?: (string | number | boolean | null)[] | null;
  lt?: number | null;
  gt?: number | null;
  glob?: string | null;
  exists?: boolean | null;
}

export interface HttpReport {
  method: string;
  route: string;
  status: string;
  count: number;
}

/** Durations in ms. Quantiles are absent without observations. */
export interface Latency {
  count: number;
  mean?: number;
  p50?: number;
  p95?: number;
  p99?: number;
}

/** An address that a tool names. It has not been fetched. */
export interface LinkPart {
  type: "link";
  uri: string;
  name?: string;
}

/** The price of one million tokens in nano-USD, as the tenant is charged. */
export interface ModelPrice {
  input: number;
  output: number;
  cacheRead: number;
  cacheWrite: number;
}

/** An exception, without its text. */
export interface Raised {
  kind: string;
  places?: string[];
}

/** An amount of one thing. */
export interface Requirement {
  unit: string;
  terms: Term[];
}

export interface ResolveFailure {
  code: string;
  message: string;
  details?: Record<string, unknown>;
}

/** A setting of an adapter, for a form. `isSecret`: its value is the name of a secret of the tenant. */
export interface SettingField {
  name: string;
  description: string;
  isSecret?: boolean;
  required?: boolean;
  default?: string;
}

/** The result of all checks: the worst of them. */
export interface Status {
  status: "fail" | "ok" | "warn";
  version: string;
  uptimeSeconds: number;
  checks: Check[];
}

/** The bounds of one turn; those of the settings `limits`. */
export interface TurnLimits {
  steps: number;
  tokens: number;
  cost: number;
  seconds: number;
  toolCalls: number;
  agentCalls: number;
  agentDepth: number;
}

/** A summand, with the multiplication that it came from. */
export interface Term {
  name: string;
  amount: number;
  by: string;
}
