/**
 * Key watch — whether the key of an open socket is still valid.
 *
 * A lookup costs, so it is made when something is said or heard, at most once a minute; and on a silent socket every half hour.
 * What comes while it is made waits for it.
 */

import { authenticate, type Principal } from "./access.ts";
import { type Env, keyIdleMs, keyMs } from "./env.ts";
import { EdgeError, visible } from "./errors.ts";

export class KeyWatch {
  #env: Env;
  #token: string;
  #principal: Principal;
  #end: () => void;
  #checkedAt = Date.now();
  #checking: Promise<boolean> | undefined;
  #timer: ReturnType<typeof setInterval>;

  constructor(env: Env, token: string, principal: Principal, end: () => void) {
    this.#env = env;
    this.#token = token;
    this.#principal = principal;
    this.#end = end;
    this.#timer = setInterval(() => void this.check(), keyIdleMs(env));
  }

  /** Whether something may be said or heard without a lookup. */
  get isFresh(): boolean {
    return this.#env.ACCESS === "open" || (this.#checking === undefined && Date.now() - this.#checkedAt < keyMs(this.#env));
  }

  /** Looks the key up; one that is gone ends the socket. */
  async check(): Promise<boolean> {
    this.#checking ??= this.#lookUp().finally(() => (this.#checking = undefined));
    return await this.#checking;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #lookUp(): Promise<boolean> {
    try {
      if ((await authenticate(this.#env, this.#token)).equals(this.#principal)) {
        this.#checkedAt = Date.now();
        return true;
      }
    } catch (error) {
      // A namespace that cannot be read says nothing about the key.
      if (!(error instanceof EdgeError)) {
        visible(error);
        return true;
      }
    }
    this.#end();
    return false;
  }
}
