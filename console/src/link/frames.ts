/** The frames of the AgentX protocol, as far as the console reads them. */

import type { FilePart as SentFile, ImagePart, Scope, SessionRecord, TextPart, ThinkingPart, Usage } from "./client.ts";

export type { Usage } from "./client.ts";

export interface EventFrame {
  type: string;
  timestamp: number;
  // Every type has its own fields; the fold reads those it knows.
  // oxlint-disable-next-line no-explicit-any
  data: any;
  category?: string;
  context?: Scope;
  cursor?: string;
}

/** A picture or a file in a message. */
export type FilePart = (ImagePart & { filename?: undefined }) | (SentFile & { name?: undefined });

export type Part = TextPart | ThinkingPart | FilePart;

/** A passage that an answer names as `[n]`; `cite` opens its range. */
export interface Citation {
  n: number;
  cite: string;
}

export interface StoredMessage {
  subtype: "user" | "assistant" | "tool-call" | "tool-result" | "error";
  id: string;
  timestamp: number;
  turnId?: string | null;
  content?: string | Part[];
  usage?: Usage | null;
  /** Passages that an answer names. */
  citations?: Citation[] | null;
  errorCode?: string;
  toolCall?: { id: string; name: string; input: Record<string, unknown> };
  /** The assistant message that asks for the call. */
  parentId?: string;
  toolCallId?: string;
  toolResult?: { id: string; name: string; agent?: string; output: { type: string; value?: unknown; reason?: string } };
}

/** A session in a list. One that this tab has just made knows little of itself. */
export type SessionRow = Pick<SessionRecord, "sessionId" | "imageId" | "containerId" | "updatedAt"> & Partial<SessionRecord>;
