/**
 * Feed — the events of one turn on their way: numbered, told to the Worker's own client at once, and to others in batches.
 *
 * Others are told by way of the object, which costs; so nothing is posted while nobody else listens, and not more often than
 * four times a second.
 */

import type { Scope } from "../../clients/typescript/src/types.ts";
import type { Batch, Numbered, Told } from "./events.ts";
import type { Link } from "./link.ts";

const BATCH_MS = 250;
/** A message to the object has at most this many events. */
const BATCH_MAX = 500;

export class Feed {
  readonly scope: Scope;
  /** All events of the turn that were told or are about to be. */
  readonly log: Numbered[] = [];
  listeners: number;
  #seq: number;
  #deliver: (batch: Batch) => void;
  #link: Link;
  #waiting: Numbered[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(scope: Scope, firstSeq: number, listeners: number, deliver: (batch: Batch) => void, link: Link) {
    this.scope = scope;
    this.#seq = firstSeq;
    this.listeners = listeners;
    this.#deliver = deliver;
    this.#link = link;
  }

  get lastSeq(): number {
    return this.#seq;
  }

  /** Takes up events that a run before this one has told. */
  restore(events: readonly Numbered[]): void {
    this.log.push(...events);
    this.#seq = events.at(-1)?.seq ?? this.#seq;
  }

  /** The number of the last event before the next one. */
  startAfter(seq: number): void {
    this.#seq = seq;
  }

  /** Numbers events without telling them: what has to be stored first. */
  number(events: readonly Told[]): Numbered[] {
    const numbered = events.map((event): Numbered => ({ ...event, seq: ++this.#seq }));
    this.log.push(...numbered);
    return numbered;
  }

  tell(events: readonly Told[]): void {
    if (events.length > 0) this.send(this.number(events));
  }

  send(events: Numbered[]): void {
    this.#deliver({ scope: this.scope, events });
    if (this.listeners === 0) return;
    this.#waiting.push(...events);
    this.#timer ??= setTimeout(() => this.flush(), BATCH_MS);
  }

  /** Somebody listens from now on; they are told what they have missed since a number. */
  listen(connection: string, after: number | null): void {
    // What was told before they came is not news for them.
    this.flush(connection);
    this.listeners += 1;
    const missed = after === null ? [] : this.log.filter((event) => event.seq > after);
    this.#post(missed, connection);
  }

  /** Tells the others everything once more: the object has forgotten who listens. They pass over what they have heard. */
  repeat(): void {
    this.flush();
    this.listeners = Math.max(1, this.listeners);
    this.#post(this.log, null);
  }

  /** Posts what waits for its batch, to all but one. */
  flush(but?: string): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#post(this.#waiting, null, but);
    this.#waiting = [];
  }

  #post(events: readonly Numbered[], to: string | null, but?: string): void {
    for (let start = 0; start < events.length; start += BATCH_MAX) {
      this.#link.send({ kind: "post", batch: { scope: this.scope, events: events.slice(start, start + BATCH_MAX) }, to, ...(but === undefined ? {} : { but }) });
    }
  }
}
