/** A past turn, told again from its events. No model is asked: at any moment it shows what was streamed by then. */

import type { EventFrame } from "../link/frames.ts";
import { type Conversation, EMPTY, fold } from "./fold.ts";

/** Events between two kept states: going back folds no more than these. */
const STEP = 500;

export class Replay {
  readonly #events: readonly EventFrame[];
  readonly #startAt: number;
  readonly #kept: Conversation[] = [EMPTY];
  readonly durationMs: number;

  /** `startAt` is when the turn was accepted; moments are counted from there. */
  constructor(events: readonly EventFrame[], startAt: number) {
    this.#events = events;
    this.#startAt = startAt;
    this.durationMs = Math.max(0, (events.at(-1)?.timestamp ?? startAt) - startAt);
  }

  /** How many events there were by then. */
  countAt(ms: number): number {
    let [low, high] = [0, this.#events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#events[middle] as EventFrame).timestamp - this.#startAt <= ms) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The conversation of the turn as it was shown at that moment. */
  at(ms: number): Conversation {
    const count = this.countAt(ms);
    const whole = Math.floor(count / STEP);
    while (this.#kept.length <= whole) {
      const from = (this.#kept.length - 1) * STEP;
      this.#kept.push(this.#events.slice(from, from + STEP).reduce(fold, this.#kept.at(-1) as Conversation));
    }
    return this.#events.slice(whole * STEP, count).reduce(fold, this.#kept[whole] as Conversation);
  }

  /** The moment of the event before or after one, to step by keys. */
  neighbour(ms: number, step: -1 | 1): number {
    const moments = this.#events.map(({ timestamp }) => timestamp - this.#startAt);
    const other = step > 0 ? moments.find((moment) => moment > ms) : moments.findLast((moment) => moment < ms);
    return other ?? (step > 0 ? this.durationMs : 0);
  }
}
