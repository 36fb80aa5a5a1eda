/** Records — what a Worker and the object of a container tell each other. */

import type { Usage, UserMessage } from "../../clients/typescript/src/types.ts";
import type { Batch } from "./events.ts";
import type { PolicyRule } from "./policy.ts";

/** How an agent of an image answers: the snapshot of its definition. */
export interface Definition {
  systemPrompt?: string;
  model?: string;
  maxTokens?: number;
  temperature?: number;
  thinking?: number;
  /** Tools as the build of the image has resolved them. */
  tools: ToolDefinition[];
  /** Rules about calls of tools. */
  policy?: PolicyRule[];
}

export type Effect = "read" | "write" | "destructive";
export type World = "closed" | "open";

/** A tool of an image. Members beyond these are those of its runtime. */
export interface ToolDefinition {
  name: string;
  description: string;
  runtime: string;
  inputSchema?: Record<string, unknown>;
  entry?: string;
  ask?: boolean;
  repeat?: "safe" | "keyed" | "never";
  effect?: Effect;
  world?: World;
  timeoutMs?: number;
  http?: HttpParts;
  options?: Record<string, unknown>;
  /** The version of a server's resource that the tool was built from. */
  uri?: string;
  /** Its code runs in the sandbox of the agent, which has none here. */
  inSandbox?: boolean;
}

export interface HttpParts {
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: "json" | "form" | "none";
  pick?: string;
  ok?: string[];
}

export interface Image {
  imageId: string;
  sessionId: string;
  containerId: string;
  agentId?: string;
  name: string;
  description?: string;
  definitionName: string;
  digest: string;
  definition: Definition;
  clientData?: Record<string, unknown>;
  createdAt: number;
  updatedAt: number;
}

export type TurnState = "queued" | "running" | "parked" | "ended";

/** A call that waits for somebody. */
export interface Wait {
  waitId: string;
  callId: string;
  toolName: string;
  kind: "approval" | "client";
  input: Record<string, unknown>;
  fingerprint: string;
  /** Absent in waits of earlier Workers. */
  why?: string;
  askedAt: number;
  expiresAt: number;
  answer?: WaitAnswer;
}

export interface WaitAnswer {
  decision: "approve" | "edit" | "deny" | "answer" | "expired" | "superseded";
  input?: Record<string, unknown>;
  result?: unknown;
  reason?: string;
}

/** A turn as it is stored; `body` is packed by the Worker that wrote it, and read by Workers only. */
export interface StoredTurn {
  turnId: string;
  n: number;
  state: TurnState;
  firstSeq: number;
  lastSeq: number;
  body: string | ArrayBuffer;
}

/** The attempt of a turn whose agent was stopped while it waited: it ends when it begins. */
export const STOPPED_ATTEMPT = -1;

/** A turn that a Worker is to run. */
export interface Accepted {
  image: Image;
  agentId: string;
  agentIsNew: boolean;
  turnId: string;
  n: number;
  attempt: number;
  acceptedAt: number;
  user: UserMessage;
  /** What is stored of the turn itself, if it was begun before. */
  body?: string | ArrayBuffer;
  waits: Wait[];
  /** The number of the last event before the turn, or before this part of it. */
  firstSeq: number;
  /** Events up to this number may be told: who goes on with a lost turn begins beyond them. */
  reserved: number;
  /** Events up to this number may have been told by a run that was lost. */
  lost?: number;
  history: StoredTurn[];
  listeners: number;
}

export interface AcceptRequest {
  imageId?: string;
  agentId?: string;
  sessionId?: string;
  /** While another turn runs: wait for it, stop it, or refuse this message. */
  onBusy: "queue" | "interrupt" | "reject";
  /** While a turn waits for somebody: end it, wait for it, or refuse this message. */
  onParked: "supersede" | "queue" | "reject";
  newAgentId: string;
  turnId: string;
  user: UserMessage;
  clientKey?: string;
  runner: string;
}

/** The reply to a message: `run` is the turn that the sender's Worker is to run, which may be another one. */
export interface AcceptReply {
  image: Image;
  agentId: string;
  agentIsNew: boolean;
  turnId: string;
  messageId: string;
  seq: number;
  queued: boolean;
  /** The same message was sent before. */
  repeated: boolean;
  run?: Accepted;
}

export type Refused = "image" | "agent" | "session" | "full" | "busy";

export type AnswerReply = { turnId: string; run?: Accepted } | { refused: "none" | "other" | "answered" | "expired" };

export interface FoldRequest {
  sessionId: string;
  n: number;
  turnId: string;
  attempt: number;
  runner: string;
  state: "running" | "parked" | "ended";
  lastSeq: number;
  body: string | ArrayBuffer;
  waits: Wait[];
  /** The entries of the ledger since the last time. */
  entries: LedgerEntry[];
}

/** More numbers for the events of a turn. */
export type ReserveRequest = Pick<FoldRequest, "sessionId" | "n" | "turnId" | "attempt" | "runner" | "lastSeq">;

export interface FoldReply {
  /** False if it is not the Worker's turn any more: nothing was stored. */
  stored: boolean;
  /** Whether nobody has it: it was taken back, or deleted. */
  isGone?: boolean;
  next?: Accepted;
}

/** Entries of one request to a server. */
export const ENTRIES_MAX = 500;

/** A model call, for the ledger of a server. `id` stays the same, however often it is sent. */
export interface LedgerEntry {
  id: string;
  at: number;
  containerId: string;
  imageId: string;
  sessionId: string;
  turnId: string;
  /** The kind of the provider. */
  driver: string;
  provider: string;
  model: string;
  usage: Usage;
  /** Why the server does not take it: it is kept here, and not sent any more. */
  refused?: string;
}

/** From the object to a Worker that listens. */
export type Down =
  | { kind: "batch"; batch: Batch }
  | { kind: "listen"; sessionId: string; connection: string; after: number | null }
  | { kind: "missed"; sessionId: string }
  | { kind: "interrupt"; turnId: string };

/** From a Worker that listens to the object. */
export type Up =
  | { kind: "subscribe"; sessionId: string; after: number | null }
  | { kind: "unsubscribe"; sessionId: string }
  | { kind: "follow" }
  | { kind: "post"; batch: Batch; to: string | null; but?: string };

/** What a turn that nobody runs any more is handed to a new Worker with. */
export interface Rerun {
  /** The name of the object. */
  object: string;
  sessionId: string;
  n: number;
  turnId: string;
  attempt: number;
}
