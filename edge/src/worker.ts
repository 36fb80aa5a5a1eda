/** Worker — the entry: sockets of clients, a few requests over HTTP, and turns that lost their Worker. */

import { authenticate, credentialOf, subprotocolOf } from "./access.ts";
import { Connection } from "./connection.ts";
import { Container } from "./container.ts";
import { checkVariables, type Env } from "./env.ts";
import { EdgeError, invalid, visible } from "./errors.ts";
import { rerun } from "./rerun.ts";
import { ENTRIES_MAX, type Rerun } from "./records.ts";

export { Container };

const STATUSES: Record<string, number> = { unauthenticated: 401, invalid_input: 400, not_found: 404, container_forbidden: 403, permission_denied: 403 };

export default {
  async fetch(request: Request, env: Env, context: ExecutionContext): Promise<Response> {
    try {
      return await answer(request, env, context);
    } catch (error) {
      const { code, message } = visible(error);
      return Response.json({ error: { code, message } }, { status: STATUSES[code] ?? 500 });
    }
  },

  async queue(batch: QueueBatch<Rerun>, env: Env): Promise<void> {
    await Promise.all(batch.messages.map(async (message) => await rerun(env, message.body)));
  },
};

async function answer(request: Request, env: Env, context: ExecutionContext): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname !== "/health") checkVariables(env);
  if (request.headers.get("upgrade")?.toLowerCase() === "websocket" && (pathname === "/ws" || pathname === "/")) {
    return await open(request, env, context);
  }
  if (pathname === "/health" || pathname === "/ready") return Response.json({ status: "ok" });
  if (pathname === "/v1/ledger") return await ledger(request, env);
  throw new EdgeError("not_found", `There is nothing at ${pathname}: a client connects to /ws`);
}

/** Opens the socket of a client. One without credentials may still send them in its first frame. */
async function open(request: Request, env: Env, context: ExecutionContext): Promise<Response> {
  const token = env.ACCESS === "open" ? "" : credentialOf(request);
  const known = token === undefined ? undefined : { token, principal: await authenticate(env, token) };
  const pair = new WebSocketPair();
  pair[1].accept();
  new Connection(env, pair[1], known, (promise) => context.waitUntil(promise)).start();
  const protocol = subprotocolOf(request);
  // A browser that has offered one gives up if none is chosen.
  return new Response(null, { status: 101, webSocket: pair[0], ...(protocol === undefined ? {} : { headers: { "sec-websocket-protocol": protocol } }) });
}

/** The entries of a container that are kept here, each under an id that stays the same. Who has stored them deletes them. */
async function ledger(request: Request, env: Env): Promise<Response> {
  const principal = await authenticate(env, credentialOf(request) ?? "");
  const query = new URL(request.url).searchParams;
  const place = await principal.place(query.get("container") ?? principal.home);
  const container = env.CONTAINERS.getByName(principal.object(place));
  if (request.method === "GET") return Response.json({ entries: await container.ledger(ENTRIES_MAX) });
  if (request.method !== "DELETE") throw invalid("Only GET and DELETE are known here");
  if (!principal.mayTakeEntries) throw new EdgeError("permission_denied", "This key may read entries, and not delete them: its record needs `ledger: true`");
  const ids = query.getAll("id");
  if (ids.length === 0 || ids.length > ENTRIES_MAX) throw invalid(`Name 1 to ${ENTRIES_MAX} entries with ?id=`);
  await container.dropEntries(ids);
  return new Response(null, { status: 204 });
}
