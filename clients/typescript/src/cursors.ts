/**
 * Cursors — where each open session has been read to. Pure: knows no socket.
 *
 * The events of a session are numbered. One whose number is not greater than the last is dropped, so each is applied exactly
 * once, however often the connection is lost. Sessions that are not open are heard as a part of their container, without deltas.
 */

import type { AgentEvent, Subscription } from "./frames.ts";

export class Cursors {
  /** The last event of each open session; undefined while its history is being read. */
  #cursors = new Map<string, number | undefined>();
  #containers = new Set<string>();

  /** From now on events of the session are dropped, until `follow` says where its history ends. */
  open(sessionId: string): void {
    this.#cursors.set(sessionId, undefined);
  }

  /** The history was read up to a cursor: the server sends what comes after it. */
  follow(sessionId: string, after: number): void {
    if (this.#cursors.has(sessionId)) this.#cursors.set(sessionId, after);
  }

  leave(sessionId: string): Subscription {
    this.#cursors.delete(sessionId);
    return { type: "unsubscribe", sessionId };
  }

  has(sessionId: string): boolean {
    return this.#cursors.has(sessionId);
  }

  /** Follows all sessions of a container, without deltas. Undefined if it is followed already. */
  list(containerId: string): Subscription | undefined {
    if (this.#containers.has(containerId)) return undefined;
    this.#containers.add(containerId);
    return { type: "subscribe", containerId, deltas: false };
  }

  /** The frames that continue everything on a new connection. */
  subscriptions(): Subscription[] {
    const open = [...this.#cursors].filter(([, after]) => after !== undefined);
    return [
      ...open.map(([sessionId, after]): Subscription => ({ type: "subscribe", sessionId, afterCursor: String(after), deltas: true })),
      ...[...this.#containers].map((containerId): Subscription => ({ type: "subscribe", containerId, deltas: false })),
    ];
  }

  /** Whether an event is new in an open session. */
  accept(frame: Pick<AgentEvent, "context" | "cursor">): boolean {
    const sessionId = frame.context?.sessionId;
    if (sessionId === undefined || frame.cursor === undefined || !this.#cursors.has(sessionId)) return true;
    const cursor = Number(frame.cursor);
    const last = this.#cursors.get(sessionId);
    if (last === undefined || cursor <= last) return false;
    this.#cursors.set(sessionId, cursor);
    return true;
  }
}

/** Milliseconds before the next attempt: doubled each time up to 15 s, and spread, so that clients do not come back at once. */
export function backoffMs(attempt: number, random: number): number {
  const base = Math.min(15_000, 500 * 2 ** attempt);
  return Math.round(base * (0.7 + 0.6 * random));
}
