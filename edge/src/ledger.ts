/**
 * Ledger — sends entries to a server, which books them with its prices. It knows each by its id, and books it once.
 *
 * A server refuses a request as a whole. So the entries of a refused one are sent again in halves, until the entry is found
 * that it does not take: that one is set aside, and the others are booked.
 */

import { readText } from "./bounded.ts";
import type { Entries } from "./entries.ts";
import { type Env, leaseMs, nodeKey } from "./env.ts";
import { tenantOf } from "./ids.ts";
import { ENTRIES_MAX, type LedgerEntry } from "./records.ts";

const TIMEOUT_MS = 10_000;
/** The longest time between two attempts to send entries to a server. */
const PUSH_WAIT_MAX_MS = 60 * 60 * 1000;
const ERROR_MAX_BYTES = 500;
/** Requests of one alarm: enough to find a refused entry among the most, and fewer than the platform allows. */
const REQUESTS_MAX = 30;
/** What is wrong with an entry stays wrong. Every other failure may be one of the way, of the key or of the server. */
const REFUSED: ReadonlySet<number> = new Set([400, 413, 422]);

/** What became of a request: `refused` says why the server will never take these entries together. */
type Answer = "booked" | "failed" | { refused: string };

/**
 * Sends the entries of an object; returns when to try again. What was not acknowledged is sent again, after as long a wait as
 * it is old: an object that slept since the last attempt knows no more of it.
 */
export async function sendEntries(env: Env, object: string, entries: Entries, at: number): Promise<number> {
  const unsent = entries.unsent(ENTRIES_MAX);
  const waitMs = Math.min(Math.max(leaseMs(env), at - Math.min(...unsent.map((entry) => entry.at))), PUSH_WAIT_MAX_MS);
  // Fewer after failures: so many may have taken the server too long.
  const failed = Math.floor(Math.log2(waitMs / leaseMs(env)));
  const batches = [unsent.slice(0, Math.max(1, ENTRIES_MAX >> failed))];
  for (let requests = 0; requests < REQUESTS_MAX; requests++) {
    const batch = batches.pop() ?? [];
    const [first] = batch;
    if (first === undefined) break;
    const answer = await push(env, object, batch, waitMs);
    if (answer === "failed") return Date.now() + waitMs;
    if (answer === "booked") entries.drop(new Set(batch.map(({ id }) => id)));
    else if (batch.length === 1) setAside(entries, first, answer.refused);
    else batches.push(batch.slice(batch.length >> 1), batch.slice(0, batch.length >> 1));
  }
  return entries.unsent(1).length > 0 ? at : Number.POSITIVE_INFINITY;
}

function setAside(entries: Entries, entry: LedgerEntry, refused: string): void {
  entries.setAside({ ...entry, refused });
  report("ledger_entry_refused", { id: entry.id, error: refused });
}

async function push(env: Env, object: string, entries: readonly LedgerEntry[], waitMs: number): Promise<Answer> {
  const headers = { authorization: `Bearer ${nodeKey(env, tenantOf(object))}`, "content-type": "application/json" };
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(`${env.NODE_URL}/v1/usage/entries`, { method: "POST", headers, body: JSON.stringify({ entries }), redirect: "manual", signal });
    if (response.ok) {
      await response.body?.cancel();
      return "booked";
    }
    const { text } = await readText(response, ERROR_MAX_BYTES);
    if (REFUSED.has(response.status)) return { refused: text || `status ${response.status}` };
    report("ledger_not_pushed", { status: response.status, error: text, againMs: waitMs });
  } catch (error) {
    report("ledger_not_pushed", { error: String(error).slice(0, ERROR_MAX_BYTES), againMs: waitMs });
  }
  return "failed";
}

/** The text of a server holds no key. */
const report = (log: string, facts: object): void => console.error(JSON.stringify({ log, ...facts }));
