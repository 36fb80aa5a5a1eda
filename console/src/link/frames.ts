/** The frames of the AgentX protocol, as far as the console reads them. */

export interface Scope {
  containerId?: string;
  imageId?: string;
  agentId?: string;
  sessionId?: string;
  turnId?: string;
}

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

export interface TextPart {
  type: "text";
  text: string;
}

export interface ThinkingPart {
  type: "thinking";
  reasoning: string;
}

export interface FilePart {
  type: "image" | "file";
  data: string;
  mediaType: string;
  name?: string;
  filename?: string;
}

export type Part = TextPart | ThinkingPart | FilePart;

export interface Usage {
  inputTokens: number;
  outputTokens: number;
}

export interface StoredMessage {
  subtype: "user" | "assistant" | "tool-call" | "tool-result" | "error";
  id: string;
  timestamp: number;
  turnId?: string | null;
  content?: string | Part[];
  usage?: Usage | null;
  errorCode?: string;
  toolCall?: { id: string; name: string; input: Record<string, unknown> };
  /** The assistant message that asks for the call. */
  parentId?: string;
  toolCallId?: string;
  toolResult?: { id: string; name: string; output: { type: string; value?: unknown; reason?: string } };
}

export interface SessionRow {
  sessionId: string;
  imageId: string;
  containerId: string;
  imageName?: string;
  title?: string | null;
  preview?: string | null;
  updatedAt: number;
  lastMessageAt?: number;
  pinnedAt?: number;
  archivedAt?: number;
  forkedFrom?: { sessionId: string; messageId: string };
  unread?: number;
  /** The reason why it takes no messages until it is released. */
  quarantine?: string;
  deletedAt?: number;
  restorableUntil?: number;
}

/** Decodes a frame of the server; undefined for one that says nothing. A wrapped frame is never sent to us but for the first. */
export function decodeFrame(text: string): EventFrame | undefined {
  const frame = JSON.parse(text) as EventFrame & { __payload?: string };
  return typeof frame.type === "string" ? frame : undefined;
}
