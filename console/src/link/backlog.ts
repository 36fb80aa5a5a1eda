/**
 * The events of running turns, by session, so that a conversation can be opened while it is being answered: the server sends
 * an event to a connection once. Pure.
 */

import type { EventFrame } from "./frames.ts";

const EVENTS_MAX = 20_000;

export class Backlog {
  #events = new Map<string, EventFrame[]>();

  add(frame: EventFrame): void {
    const sessionId = frame.context?.sessionId;
    if (sessionId === undefined || frame.cursor === undefined) return;
    const events = this.#events.get(sessionId);
    if (events !== undefined) events.push(frame);
    else if (frame.type === "turn_request") this.#events.set(sessionId, [frame]);
    if (frame.type === "turn_response" || (events?.length ?? 0) > EVENTS_MAX) this.#settle(sessionId);
  }

  of(sessionId: string): EventFrame[] {
    return this.#events.get(sessionId) ?? [];
  }

  /** Forgets the turns that have ended: they are in the history. */
  #settle(sessionId: string): void {
    const events = this.of(sessionId);
    const ended = new Set(events.filter((frame) => frame.type === "turn_response").map((frame) => frame.data.turnId));
    const rest = events.filter((frame) => !ended.has(frame.context?.turnId ?? frame.data?.turnId));
    if (rest.some((frame) => frame.type === "turn_request") && rest.length <= EVENTS_MAX) this.#events.set(sessionId, rest);
    else this.#events.delete(sessionId);
  }
}
