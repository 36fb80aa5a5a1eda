/** Frames — what goes over the socket: events, and subscriptions. */

import type { Events, Scope } from "./types.ts";

/** An event of one type. `cursor` is its place in its session. */
export interface EventOf<K extends keyof Events> {
  type: K;
  timestamp: number;
  data: Events[K];
  source?: string;
  category?: string;
  intent?: string;
  context?: Scope;
  cursor?: string;
}

/** Any event. Its `type` says what its `data` is. */
export type AgentEvent = { [K in keyof Events]: EventOf<K> }[keyof Events];

export interface Subscription {
  type: "subscribe" | "unsubscribe";
  sessionId?: string;
  containerId?: string;
  afterCursor?: string;
  deltas?: boolean;
}

/** What a client sends as it is. */
export type Frame = Subscription | { type: string; [name: string]: unknown };

export type Unsubscribe = () => void;

/** Decodes a frame of the server; undefined for one that says nothing, as the probe for acknowledgements. */
export function decodeFrame(text: string): AgentEvent | undefined {
  const frame = JSON.parse(text) as AgentEvent;
  return typeof frame.type === "string" ? frame : undefined;
}
