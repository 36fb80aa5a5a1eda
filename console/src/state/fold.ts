/**
 * A conversation as a function of its messages and events. Pure: live, resumed and read from the store are the same fold.
 *
 * Messages are joined by id, so an event that repeats a stored message changes nothing.
 */

import type { Question, TextPart } from "../link/client.ts";
import type { Citation, EventFrame, FilePart, Part, StoredMessage, Usage } from "../link/frames.ts";

export interface UserItem {
  kind: "user";
  id: string;
  at: number;
  turnId?: string;
  text: string;
  files: FilePart[];
  /** Set while the server has not confirmed it. */
  clientKey?: string;
  refused?: { code: string; text: string };
}

export interface AnswerItem {
  kind: "answer";
  id: string;
  at: number;
  turnId?: string;
  text: string;
  thinking: string;
  live: boolean;
  citations?: readonly Citation[];
}

export interface Wait {
  waitId: string;
  fingerprint: string;
  decisions: string[];
  why: string;
  waits: string;
  questions?: Record<string, Question>;
  /** The page where consent is given. */
  url?: string;
  expiresAt?: number;
}

export interface ToolItem {
  kind: "tool";
  /** The stored message of the call. */
  id: string;
  /** The model's name of the call, which other turns may use as well. */
  callId: string;
  at: number;
  turnId?: string;
  name: string;
  /** The stored messages that it stands for: the call and its result. */
  messageIds: string[];
  /** The answer that asks for it, which stands before it. */
  parentId?: string;
  input: unknown;
  result?: unknown;
  state: "running" | "waiting" | "done" | "failed" | "denied";
  wait?: Wait;
  /** The session of the sub-agent whose call it is: shown here only as long as it waits. */
  agentSession?: string;
  /** The URI of the agent that answers from this call on; empty for the one that the conversation began with. */
  handedTo?: string | undefined;
}

export interface ErrorItem {
  kind: "error";
  id: string;
  at: number;
  turnId?: string;
  text: string;
  code: string;
}

export type Item = UserItem | AnswerItem | ToolItem | ErrorItem;

export interface TurnEnd {
  outcome: string;
  durationMs: number;
  usage: Usage;
  model?: string;
  priceNano?: number;
}

/** Messages that were taken back together, and are kept. */
export interface Rewind {
  rewindId: string;
  rewoundAt: number;
  messages: number;
}

export interface Conversation {
  items: Item[];
  /** What was taken back, the earliest first. */
  rewinds: Rewind[];
  /** The turns that have not ended, in the order they began. */
  running: string[];
  /** When each turn was accepted, as the store has it. */
  begun: Record<string, number>;
  parked: boolean;
  ends: Record<string, TurnEnd>;
}

export const EMPTY: Conversation = { items: [], rewinds: [], running: [], begun: {}, parked: false, ends: {} };

/** The conversation of messages that were read, the oldest first. */
export function fromMessages(messages: StoredMessage[]): Conversation {
  return messages.reduce(withMessage, EMPTY);
}

/** Messages before those that are there already. */
export function withOlder(now: Conversation, messages: StoredMessage[]): Conversation {
  // A turn may have begun on the page before.
  return { ...now, items: now.items.reduce(put, fromMessages(messages)).items };
}

/** A wait as the list of waits shows it. */
export interface OpenWait extends Omit<Wait, "waits"> {
  callId: string;
  kind: string;
  tool?: string;
  input?: unknown;
  /** The session of a sub-agent; none for a call of this conversation. */
  sessionId?: string | undefined;
  turnId?: string;
  askedAt?: number;
}

/** A call that waits, of a turn that was parked before this client came. */
export function withWait(now: Conversation, { callId, kind, sessionId, tool, askedAt, turnId, ...wait }: OpenWait): Conversation {
  return { ...waiting(now, { ...wait, sessionId, toolName: tool, kind, toolId: callId }, turnId, askedAt ?? 0), parked: true };
}

/** A turn as the list of turns shows it. */
export interface TurnRow {
  turnId: string;
  acceptedAt: number;
  endedAt?: number;
  outcome?: string;
  usage?: Usage;
  model?: string;
  price?: number;
}

/** The price and the time of turns that had ended before. */
export function withTurns(now: Conversation, rows: TurnRow[]): Conversation {
  const ends = { ...now.ends };
  for (const { turnId, acceptedAt, endedAt, outcome, usage, model, price } of rows) {
    if (endedAt === undefined || usage === undefined) continue;
    ends[turnId] ??= { outcome: outcome ?? "", durationMs: endedAt - acceptedAt, usage, model, priceNano: price };
  }
  return { ...now, ends };
}

/** Rewinds that were made before; one that is known already changes nothing. */
export function withRewinds(now: Conversation, rewinds: Rewind[]): Conversation {
  const fresh = rewinds.filter(({ rewindId }) => now.rewinds.every((rewind) => rewind.rewindId !== rewindId));
  return { ...now, rewinds: [...now.rewinds, ...fresh].toSorted((a, b) => a.rewoundAt - b.rewoundAt) };
}

/** Messages and rewinds in one order: a rewind stands where the messages were that it took. */
export function rowsOf(now: Conversation, hasOlder: boolean): (Item | Rewind)[] {
  const rows: (Item | Rewind)[] = [];
  const left = now.rewinds.slice();
  // A rewind before the first message that was read belongs to an earlier page.
  if (hasOlder) while (left[0] !== undefined && left[0].rewoundAt <= (now.items[0]?.at ?? 0)) left.shift();
  for (const item of now.items) {
    const isSent = item.kind === "user" && item.clientKey !== undefined;
    while (left[0] !== undefined && (isSent || left[0].rewoundAt <= item.at)) rows.push(left.shift() as Rewind);
    rows.push(item);
  }
  return [...rows, ...left];
}

/** The item that shows a stored message. */
export function itemOf(now: Conversation, messageId: string): Item | undefined {
  return now.items.find((item) => item.id === messageId || (item.kind === "tool" && item.messageIds.includes(messageId)));
}

/** The last question, which is the one to be edited. */
export function lastQuestion(now: Conversation): UserItem | undefined {
  return now.items.findLast((item): item is UserItem => item.kind === "user" && item.clientKey === undefined);
}

/** The wait of this conversation in which a question is asked. */
export function openQuestion(now: Conversation): Wait | undefined {
  const asking = now.items.findLast((item) => item.kind === "tool" && item.wait?.waits === "question" && item.agentSession === undefined);
  return asking?.kind === "tool" ? asking.wait : undefined;
}

/** The last message that the server has stored, as far as it is shown. */
export function lastStored(now: Conversation): Item | undefined {
  return now.items.findLast((item) => (item.kind === "user" ? item.clientKey === undefined : item.kind === "error" || (item.kind === "answer" && !item.live)));
}

/** The content of an edited question: the new text, with the files that were sent with the old one. */
export const edited = (item: UserItem, text: string): string | (TextPart | FilePart)[] => (item.files.length === 0 ? text : [...item.files, { type: "text", text }]);

/** A message that was sent and is not confirmed. */
export function withDraft(now: Conversation, clientKey: string, text: string, files: FilePart[], at: number): Conversation {
  return put(now, { kind: "user", id: clientKey, at, text, files, clientKey });
}

/** What the server says to a message that was sent; without a refusal it is sent once more. */
export function withRefusal(now: Conversation, clientKey: string, refused: UserItem["refused"]): Conversation {
  return change(now, clientKey, (item) => (item.kind === "user" ? { ...item, refused } : item));
}

export function without(now: Conversation, id: string): Conversation {
  return { ...now, items: now.items.filter((item) => item.id !== id) };
}

const STATES = { text: "done", json: "done", content: "done", "execution-denied": "denied" } as const;

function withMessage(now: Conversation, message: StoredMessage): Conversation {
  const { id, timestamp: at } = message;
  const turnId = message.turnId ?? undefined;
  switch (message.subtype) {
    case "user":
      return put(now, { kind: "user", id, at, turnId, text: textOf(message.content, "text"), files: filesOf(message.content) });
    case "assistant": {
      const [text, thinking] = [textOf(message.content, "text"), textOf(message.content, "thinking")];
      return put(now, { kind: "answer", id, at, turnId, text, thinking, live: false, ...(message.citations ? { citations: message.citations } : {}) });
    }
    case "tool-call": {
      const call = message.toolCall;
      if (call === undefined || find(now, id) !== undefined) return now;
      return put(now, {
        kind: "tool", id, callId: call.id, at, turnId, name: call.name, messageIds: [id], parentId: message.parentId, input: call.input, state: "running",
      });
    }
    case "tool-result": {
      const output = message.toolResult?.output;
      const state = (output && STATES[output.type as keyof typeof STATES]) ?? "failed";
      return changeCall(now, message.toolCallId ?? "", turnId, (item) => ({
        ...item, state, messageIds: [...new Set([...item.messageIds, id])], result: output?.value ?? output?.reason, wait: undefined, handedTo: message.toolResult?.agent,
      }));
    }
    case "error":
      return put(now, { kind: "error", id, at, turnId, text: String(message.content), code: message.errorCode ?? "" });
  }
}

/** The conversation after an event. Events of other kinds change nothing, and give the same object. */
export function fold(now: Conversation, frame: EventFrame): Conversation {
  const { type, data, timestamp: at } = frame;
  const turnId: string | undefined = frame.context?.turnId ?? data?.turnId;
  switch (type) {
    case "user_message":
    case "assistant_message":
    case "tool_call_message":
    case "tool_result_message":
    case "error_message":
      return withMessage(now, data as StoredMessage);
    case "turn_request":
      return begin(
        { ...(data.clientKey === undefined ? now : confirm(now, data.clientKey, data.messageId)), begun: { ...now.begun, [data.turnId]: data.timestamp } },
        data.turnId,
      );
    case "turn_resumed":
      // What was being said is told again, under another id.
      return { ...begin(now, data.turnId), items: now.items.filter((item) => !(item.kind === "answer" && item.live)) };
    case "turn_parked":
      return { ...now, parked: true };
    case "message_start":
      return put(now, { kind: "answer", id: data.messageId, at, turnId, text: data.text ?? "", thinking: "", live: true });
    case "text_delta":
      return live(now, turnId, (item) => ({ ...item, text: item.text + data.text }));
    case "thinking_delta":
      return live(now, turnId, (item) => ({ ...item, thinking: item.thinking + data.text }));
    case "message_stop":
      return live(now, turnId, (item) => ({ ...item, live: false }));
    case "tool_waiting":
      return { ...waiting(now, data, turnId, at), parked: now.parked };
    case "tool_answered":
      if (data.sessionId !== undefined) return without(now, idOfWait(data));
      return { ...changeCall(now, data.toolId, turnId, (item) => ({ ...item, state: "running", wait: undefined })), parked: false };
    case "turn_response":
      return end(now, data);
    case "session_rewound": {
      const gone = new Set<string>(data.messageIds);
      const kept = now.items.filter((item) => !gone.has(item.id) && !(item.kind === "tool" && item.messageIds.some((id) => gone.has(id))));
      return withRewinds({ ...now, items: kept }, [{ rewindId: data.rewindId, rewoundAt: data.rewoundAt, messages: gone.size }]);
    }
    default:
      return now;
  }
}

function begin(now: Conversation, turnId: string): Conversation {
  return now.running.includes(turnId) ? { ...now, parked: false } : { ...now, running: [...now.running, turnId], parked: false };
}

function end(now: Conversation, data: EventFrame["data"]): Conversation {
  const { turnId, outcome, duration, usage, model, price } = data;
  const begun = now.begun[turnId];
  const durationMs = begun === undefined ? duration : data.timestamp - begun;
  const items = now.items
    .filter((item) => !(item.kind === "answer" && item.live && item.turnId === turnId && item.text === "" && item.thinking === ""))
    .map((item) => (item.kind === "answer" && item.turnId === turnId && item.live ? { ...item, live: false } : item));
  return {
    ...now,
    items,
    running: now.running.filter((one) => one !== turnId),
    parked: false,
    ends: { ...now.ends, [turnId]: { outcome, durationMs, usage, model, priceNano: price } },
  };
}

/** Calls of different sub-agents may have the same ids. */
function idOfWait(data: EventFrame["data"]): string {
  return `${data.sessionId}/${data.toolId}`;
}

function waiting(now: Conversation, data: EventFrame["data"], turnId: string | undefined, at: number): Conversation {
  const wait: Wait = {
    waitId: data.waitId,
    fingerprint: data.fingerprint,
    decisions: data.decisions,
    why: data.why,
    waits: data.kind,
    ...(data.questions ? { questions: data.questions } : {}),
    ...(data.url ? { url: data.url } : {}),
    expiresAt: data.expiresAt,
  };
  if (data.sessionId !== undefined) {
    const { toolName: name, input, sessionId: agentSession } = data;
    return put(now, { kind: "tool", id: idOfWait(data), callId: data.toolId, at, turnId, name, messageIds: [], input, state: "waiting", wait, agentSession });
  }
  return changeCall(now, data.toolId, turnId, (item) => ({ ...item, state: "waiting", wait }));
}

/** The server has stored a message that this client, or another tab of it, has sent. */
function confirm(now: Conversation, clientKey: string, messageId: string): Conversation {
  const sent = find(now, clientKey);
  if (sent?.kind !== "user") return now;
  const rest = without(now, clientKey);
  return find(rest, messageId) === undefined ? put(rest, { ...sent, id: messageId, clientKey: undefined, refused: undefined }) : rest;
}

function live(now: Conversation, turnId: string | undefined, next: (item: AnswerItem) => AnswerItem): Conversation {
  for (let index = now.items.length - 1; index >= 0; index -= 1) {
    const item = now.items[index];
    if (item?.kind === "answer" && item.live && item.turnId === turnId) return replaced(now, index, next(item));
  }
  return now;
}

function find(now: Conversation, id: string): Item | undefined {
  return now.items.findLast((item) => item.id === id);
}

function put(now: Conversation, item: Item): Conversation {
  const index = now.items.findLastIndex((other) => other.id === item.id);
  if (index >= 0) return replaced(now, index, item);
  return { ...now, items: now.items.toSpliced(placeOf(now.items, item), 0, item) };
}

/** Where a new item stands: with those of its turn, although a message that waits for the end of the turn was stored before it. */
function placeOf(items: Item[], item: Item): number {
  // A call is stored before the answer that asks for it.
  const call = items.findIndex((other) => other.kind === "tool" && other.parentId === item.id);
  if (call >= 0) return call;
  const last = item.turnId === undefined ? -1 : items.findLastIndex((other) => other.turnId === item.turnId);
  return last < 0 ? items.length : last + 1;
}

function change(now: Conversation, id: string, next: (item: Item) => Item): Conversation {
  const index = now.items.findLastIndex((item) => item.id === id);
  const item = now.items[index];
  return item === undefined ? now : replaced(now, index, next(item));
}

/** Changes the newest call of this name in its turn. Some models number the calls of every answer anew. */
function changeCall(now: Conversation, callId: string, turnId: string | undefined, next: (item: ToolItem) => ToolItem): Conversation {
  const call = now.items.findLast((item) => item.kind === "tool" && item.callId === callId && (turnId === undefined || item.turnId === turnId));
  return call?.kind === "tool" ? put(now, next(call)) : now;
}

function replaced(now: Conversation, index: number, item: Item): Conversation {
  const items = now.items.slice();
  items[index] = item;
  return { ...now, items };
}

function textOf(content: string | Part[] | undefined, type: "text" | "thinking"): string {
  if (typeof content === "string") return type === "text" ? content : "";
  return (content ?? [])
    .map((part) => (part.type === "text" && type === "text" ? part.text : part.type === "thinking" && type === "thinking" ? part.reasoning : ""))
    .join("");
}

function filesOf(content: string | Part[] | undefined): FilePart[] {
  if (content === undefined || typeof content === "string") return [];
  return content.filter((part): part is FilePart => part.type === "image" || part.type === "file");
}
