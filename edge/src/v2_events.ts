/**
 * Dialect 2.x, events — notifications of JSON-RPC as clients of AgentX 2.x read them.
 *
 * They apply an event without an instance to every conversation they show, so events of a conversation always have one. An
 * assistant message holds its calls as parts; here each call is a message of its own, so they are put together.
 */

import type { AssistantMessage, Scope, ToolCallMessage } from "../../clients/typescript/src/types.ts";
import { type EventType, kindOf, type Numbered } from "./events.ts";
import { instanceOf } from "./ids.ts";
import type { Data } from "./input.ts";
import type { Message } from "./turn.ts";

/** Events that 2.x does not have, and whose names its clients might take for something else. */
const DROPPED: ReadonlySet<EventType> = new Set<EventType>([
  ...(["text_content_block_start", "text_content_block_stop", "message_persisted", "conversation_queued", "conversation_thinking"] as const),
  ...(["tool_completed", "tool_failed", "session_destroyed", "system_error"] as const),
]);

/** Events of a model's answer while it is being made: they leave before the message that the answer becomes. */
const WITHIN: ReadonlySet<EventType> = new Set<EventType>([
  ...(["text_delta", "thinking_delta", "tool_use_start", "input_json_delta", "tool_use_stop", "message_delta", "message_stop"] as const),
  ...(["tool_planned", "tool_executing"] as const),
]);

const CATEGORIES: Partial<Record<EventType, string>> = {
  message_start: "message",
  message_delta: "message",
  message_stop: "message",
  tool_use_start: "tool",
  tool_use_stop: "tool",
  tool_result: "tool",
  user_message: "message",
};

interface Held {
  scope: Scope;
  event: Numbered;
  parentId: string;
  parent?: AssistantMessage;
  calls: ToolCallMessage[];
}

/** Writes the events of one connection. */
export class EventWriter {
  #held = new Map<string, Held>();

  *write(scope: Scope, event: Numbered): Generator<string> {
    if (DROPPED.has(event.type)) return;
    const session = scope.sessionId ?? "";
    const held = this.#held.get(session);
    if (held !== undefined && !WITHIN.has(event.type)) {
      if (takes(held, event)) return;
      this.#held.delete(session);
      yield folded(held);
    }
    if (event.type === "assistant_message" || event.type === "tool_call_message") {
      const isCall = event.type === "tool_call_message";
      const parentId = isCall ? event.data.parentId : event.data.id;
      this.#held.set(session, { scope, event, parentId, calls: isCall ? [event.data] : [], ...(isCall ? {} : { parent: event.data }) });
      return;
    }
    for (const [type, source, category, data] of shapes(scope, event)) yield notification(scope, event, type, source, category, data);
  }
}

/** Adds a part of the same message. */
function takes(held: Held, event: Numbered): boolean {
  if (event.type === "tool_call_message" && event.data.parentId === held.parentId) {
    held.calls.push(event.data);
    return true;
  }
  if (event.type === "assistant_message" && event.data.id === held.parentId && held.parent === undefined) {
    held.parent = event.data;
    return true;
  }
  return false;
}

function folded({ scope, event, parentId, parent, calls }: Held): string {
  const content = [...(parent?.content ?? []), ...calls.map((call) => call.toolCall)];
  const { timestamp, turnId } = parent ?? (calls[0] as ToolCallMessage);
  return notification(scope, event, "assistant_message", "agent", "message", { id: parentId, role: "assistant", subtype: "assistant", content, timestamp, turnId });
}

type Shape = [type: string, source: string, category: string, data: unknown];

function shapes(scope: Scope, event: Numbered): Shape[] {
  const { data } = event;
  switch (event.type) {
    case "turn_request":
      return [["turn_request", "agent", "turn", { ...event.data, content: "" }]];
    case "agent_registered": {
      const { agentId, imageId, containerId } = event.data;
      return [["agent_created", "runtime", "lifecycle", { instanceId: instanceOf(agentId), imageId, containerId }]];
    }
    case "agent_unregistered":
      return [["agent_destroyed", "runtime", "lifecycle", { instanceId: instanceOf(event.data.agentId) }]];
    case "error_received":
      return [
        ["error", "runtime", "error", data],
        ["error_received", "runtime", "error", data],
      ];
    case "interrupted": {
      const passed: Shape = ["interrupt", "runtime", "stream", { instanceId: instanceOf(event.data.agentId) }];
      return event.data.turnId === undefined ? [passed] : [passed, ["interrupted", "runtime", "error", { reason: "user" }]];
    }
    case "session_rewound":
      return [["rewind", "runtime", "stream", { instanceId: instanceId(scope), messageId: event.data.keptId, truncatedCount: event.data.folded }]];
    default: {
      const [source, category] = kindOf(event.type);
      const isStream = category === "stream" || event.type === "user_message";
      return [[event.type, isStream ? "runtime" : source, CATEGORIES[event.type] ?? category, data]];
    }
  }
}

/** No agent is in memory: an event without an instance would be taken for one of every conversation. */
function instanceId({ agentId, sessionId }: Scope): string | undefined {
  if (agentId !== undefined) return instanceOf(agentId);
  return sessionId === undefined ? undefined : `inst_${sessionId.replace(/^sess_/, "")}`;
}

function notification(scope: Scope, event: Numbered, type: string, source: string, category: string, data: unknown): string {
  const { containerId } = scope;
  const { imageId, sessionId } = event.type === "agent_registered" || event.type === "agent_unregistered" ? event.data : scope;
  // A stop is told by the session, and is also one of the events of the turn that it ends.
  const turnId = event.type === "interrupted" ? event.data.turnId : scope.turnId;
  const context = { instanceId: instanceId(scope), imageId, containerId, sessionId };
  const request = turnId !== undefined && source === "runtime" ? { requestId: `req_${turnId.replace(/^turn_/, "")}` } : {};
  const told = { type, timestamp: event.at, source, category, intent: "notification", ...request, data, context };
  const params = { topic: sessionId ?? "global", event: told, ...(event.seq > 0 ? { seq: event.seq } : {}) };
  return JSON.stringify({ jsonrpc: "2.0", method: "stream.event", params });
}

/** A history in the form of 2.x: a message of the model with its calls as parts. */
export function foldMessages(messages: readonly Message[]): Data[] {
  const result: Data[] = [];
  for (const message of messages) {
    if (message.subtype !== "assistant" && message.subtype !== "tool-call") {
      result.push({ ...message });
      continue;
    }
    const id = message.subtype === "assistant" ? message.id : message.parentId;
    const last = result.at(-1);
    const isSame = last?.subtype === "assistant" && last.id === id;
    const content = isSame ? (last.content as unknown[]) : [];
    const joined = message.subtype === "assistant" ? [...message.content, ...content] : [...content, message.toolCall];
    if (isSame) last.content = joined;
    else result.push({ id, role: "assistant", subtype: "assistant", content: joined, timestamp: message.timestamp, turnId: message.turnId });
  }
  return result;
}
