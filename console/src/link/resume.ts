/**
 * Where each session has been read to. Pure: knows no socket.
 *
 * Events of a session are numbered without gaps. One whose number is not greater than the last is dropped, so each is applied
 * exactly once, however often the connection is lost.
 */

import type { EventFrame } from "./frames.ts";

export interface Subscription {
  type: "subscribe";
  sessionId: string;
  afterCursor?: string;
}

export class Resume {
  #cursors = new Map<string, number>();
  #followed = new Set<string>();

  /** Follows a session after a cursor. Undefined if it is followed already: the server sends each event once. */
  follow(sessionId: string, after: number): Subscription | undefined {
    if (this.#followed.has(sessionId)) return undefined;
    this.#followed.add(sessionId);
    this.#cursors.set(sessionId, after);
    return this.#subscription(sessionId);
  }

  /** The frames that continue every session on a new connection. */
  subscriptions(): Subscription[] {
    return [...this.#followed].map((sessionId) => this.#subscription(sessionId));
  }

  /** Whether an event is new. */
  accept(frame: EventFrame): boolean {
    const sessionId = frame.context?.sessionId;
    if (sessionId === undefined || frame.cursor === undefined) return true;
    const cursor = Number(frame.cursor);
    const last = this.#cursors.get(sessionId);
    if (last !== undefined && cursor <= last) return false;
    this.#cursors.set(sessionId, cursor);
    this.#followed.add(sessionId);
    return true;
  }

  /** Continues a session from a cursor that the server names, after events were lost. */
  restart(sessionId: string, cursor: number): void {
    this.#cursors.set(sessionId, cursor);
  }

  #subscription(sessionId: string): Subscription {
    const after = this.#cursors.get(sessionId);
    return after === undefined ? { type: "subscribe", sessionId } : { type: "subscribe", sessionId, afterCursor: String(after) };
  }
}

/** Milliseconds before the next attempt: doubled each time up to 15 s, and spread, so that clients do not come back at once. */
export function backoffMs(attempt: number, random: number): number {
  const base = Math.min(15_000, 500 * 2 ** attempt);
  return Math.round(base * (0.7 + 0.6 * random));
}
