/** Lost turns — what the object does about turns that no Worker runs: one is handed out once more, and after that it ends. */

import { droppedBatch, lostTurn } from "./batches.ts";
import { type Env, leaseMs } from "./env.ts";
import { visible } from "./errors.ts";
import type { Listeners } from "./listeners.ts";
import type { Wait } from "./records.ts";
import type { Store, TurnRow } from "./store.ts";

/** New runs of a turn whose Worker is gone. */
const RERUNS_MAX = 1;

export class LostTurns {
  #env: Env;
  #store: Store;
  #listeners: Listeners;

  constructor(env: Env, store: Store, listeners: Listeners) {
    this.#env = env;
    this.#store = store;
    this.#listeners = listeners;
  }

  /** Looks after one turn; returns when to look again, also if that fails: the platform gives up alarms that fail. */
  async look(row: TurnRow, at: number): Promise<number> {
    try {
      return await this.#look(row, at);
    } catch (error) {
      visible(error);
      return at + leaseMs(this.#env);
    }
  }

  async #look(row: TurnRow, at: number): Promise<number> {
    if (row.state === "parked") return this.#lookAtWaits(row, at);
    const lease = leaseMs(this.#env);
    // A Worker that is alive ends its turn by its own deadline.
    if (this.#listeners.isAlive(row.runner)) return at + lease;
    if (row.attempt >= RERUNS_MAX && row.runner !== "") return (await this.end(row, at, "failed")) ?? at + lease;
    // Without a runner no Worker has it yet: the queue hands it out once more, and only one Worker can take it.
    const attempt = row.runner === "" ? row.attempt : row.attempt + 1;
    if (attempt !== row.attempt) this.#store.orphan(row);
    const object = this.#store.container()?.object ?? "";
    await this.#env.TURNS.send({ object, sessionId: row.session_id, n: row.n, turnId: row.turn_id, attempt });
    return at + lease;
  }

  /**
   * Ends a turn without a Worker, and lets the message that is queued behind it be handed out; returns when to look again.
   * Undefined: the turn is not as it was, for one because a Worker has taken it.
   */
  async end(row: TurnRow, at: number, outcome: "failed" | "interrupted"): Promise<number | undefined> {
    const image = this.#store.imageOfSession(row.session_id);
    if (image === undefined) return Number.POSITIVE_INFINITY;
    const { fold, batch } = await lostTurn(row, image, at, outcome);
    if (!this.#store.fold(fold)) return undefined;
    this.#listeners.broadcast(batch, "");
    const [next] = this.#store.open(row.session_id);
    if (next?.state !== "queued") return Number.POSITIVE_INFINITY;
    this.#store.run(next, "", fold.lastSeq);
    return at;
  }

  /** Tells the ends of turns after one that no Worker runs: they are about to be deleted. */
  drop(sessionId: string, after: number): void {
    const image = this.#store.imageOfSession(sessionId);
    if (image === undefined) return;
    const left = this.#store.open(sessionId).filter((row) => row.n > after && (row.state !== "running" || !this.#listeners.isAlive(row.runner)));
    for (const row of left) this.#listeners.broadcast(droppedBatch(row, image), "");
  }

  /** Ends the waits that nobody has answered in time. */
  #lookAtWaits(row: TurnRow, at: number): number {
    const waits = JSON.parse(row.waits) as Wait[];
    const next = Math.min(...waits.filter((wait) => wait.answer === undefined).map((wait) => wait.expiresAt));
    if (next > at) return next;
    for (const wait of waits) if (wait.expiresAt <= at) wait.answer ??= { decision: "expired" };
    this.#store.setWaits(row, waits);
    if (waits.some((wait) => wait.answer === undefined)) return at + leaseMs(this.#env);
    this.#store.run(row, "", row.last_seq);
    return at;
  }
}
