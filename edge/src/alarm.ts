/** Alarm — when an object is to wake by itself. One that has slept does not know its alarm any more. */

import { type Env, leaseMs } from "./env.ts";

export class Alarm {
  #storage: DurableObjectStorage;
  #env: Env;
  #count: () => void;
  #at = Number.POSITIVE_INFINITY;

  /** `count` is called for each row that is written: an alarm is one. */
  constructor(storage: DurableObjectStorage, env: Env, count: () => void) {
    this.#storage = storage;
    this.#env = env;
    this.#count = count;
  }

  /** The alarm has come. */
  rang(): void {
    this.#at = Number.POSITIVE_INFINITY;
  }

  /** At a time, or when the Worker of a turn should have said something. */
  async set(at: number = Date.now() + leaseMs(this.#env)): Promise<void> {
    // One that comes earlier looks at everything, and sets the next.
    if (this.#at <= at) return;
    this.#at = at;
    this.#count();
    await this.#storage.setAlarm(at);
  }

  async clear(): Promise<void> {
    this.rang();
    this.#count();
    await this.#storage.deleteAlarm();
  }
}
