/** Ledger — sends entries to a server, which books them with its prices. It knows each by its id, and books it once. */

import { type Env, nodeKey } from "./env.ts";
import { tenantOf } from "./ids.ts";
import type { LedgerEntry } from "./records.ts";

const TIMEOUT_MS = 10_000;
const ERROR_MAX_CHARACTERS = 500;

/** Whether the server has the entries now. */
export async function push(env: Env, object: string, entries: readonly LedgerEntry[]): Promise<boolean> {
  const headers = { authorization: `Bearer ${nodeKey(env, tenantOf(object))}`, "content-type": "application/json" };
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(`${env.NODE_URL}/v1/usage/entries`, { method: "POST", headers, body: JSON.stringify({ entries }), redirect: "manual", signal });
    if (response.ok) {
      await response.body?.cancel();
      return true;
    }
    report({ status: response.status, error: (await response.text()).slice(0, ERROR_MAX_CHARACTERS) });
  } catch (error) {
    report({ error: String(error).slice(0, ERROR_MAX_CHARACTERS) });
  }
  return false;
}

/** The text of a server holds no key. */
const report = (facts: object): void => console.error(JSON.stringify({ log: "ledger_not_pushed", ...facts }));
