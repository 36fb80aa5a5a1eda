/** The end of the log, followed: entries come as they are written, and the stream is taken up again where it broke. */

import type { LogEntry } from "../link/client.ts";
import { type ReadonlySignal, signal } from "@preact/signals";
import { withQuery } from "./data.ts";

export type { LogEntry };

export const ROWS_MAX = 2_000;
const FIRST_ROWS = 100;
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000];

/** The lines of pieces of text that end anywhere. */
export class LineReader {
  #rest = "";

  read(piece: string): string[] {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    return lines.filter((line) => line !== "");
  }
}

/** New entries before those that are there, the newest first; each once, and no more than the list may hold. */
export function withEntries(rows: readonly LogEntry[], fresh: readonly LogEntry[]): LogEntry[] {
  const last = rows[0]?.number ?? -1;
  return [...fresh.filter(({ number }) => number > last).toReversed(), ...rows].slice(0, ROWS_MAX);
}

export type TailState = "connecting" | "following" | "waiting";

/** Follows the log until it is stopped. `path` has the filters. */
export class Tail {
  readonly #rows = signal<LogEntry[]>([]);
  readonly #state = signal<TailState>("connecting");
  readonly #problem = signal("");
  readonly #stopped = new AbortController();
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
    void this.#run();
  }

  get rows(): ReadonlySignal<LogEntry[]> {
    return this.#rows;
  }

  get state(): ReadonlySignal<TailState> {
    return this.#state;
  }

  /** Why the log cannot be followed now; empty if it is. */
  get problem(): ReadonlySignal<string> {
    return this.#problem;
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#stopped.signal.aborted; failures += 1) {
      try {
        await this.#follow(() => (failures = 0));
        failures = 0;
        this.#problem.value = "";
      } catch (error) {
        if (this.#stopped.signal.aborted) return;
        this.#problem.value = error instanceof Error ? error.message : String(error);
      }
      this.#state.value = "waiting";
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
    }
  }

  async #follow(onEntry: () => void): Promise<void> {
    const last = this.#rows.peek()[0]?.number;
    const from = last === undefined ? { limit: FIRST_ROWS } : { after: last };
    const response = await fetch(withQuery(this.#path, { follow: "true", ...from }), { signal: this.#stopped.signal });
    if (!response.ok || response.body === null) {
      const failure = (await response.json().catch(() => undefined)) as { error?: { message: string } } | undefined;
      throw new Error(failure?.error?.message ?? `HTTP ${response.status}`);
    }
    this.#state.value = "following";
    this.#problem.value = "";
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const lines = new LineReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const fresh = lines.read(value).map((line) => JSON.parse(line) as LogEntry);
      if (fresh.length === 0) continue;
      onEntry();
      this.#rows.value = withEntries(this.#rows.peek(), fresh);
    }
  }
}
