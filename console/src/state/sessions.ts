/** The list of conversations, and what can be done with one of them. */

import { signal } from "@preact/signals";
import { keep, kept } from "../link/copies.ts";
import type { EventFrame, SessionRow } from "../link/frames.ts";
import { request } from "../link/http.ts";
import { ask, followContainer, onNotice, onOpen } from "../link/socket.ts";
import { identity, ownerName } from "../link/who.ts";

export const sessions = signal<SessionRow[] | undefined>(undefined);
/** Whether the server has conversations that are older than those of the list. */
export const hasMore = signal(false);
/** Sessions whose turn runs now, as far as this client has heard. */
export const answering = signal<ReadonlySet<string>>(new Set());

const PAGE = 100;
/** The greatest page that the server gives. */
const PAGE_MAX = 200;
/** How many conversations the reader wants to see. */
let wanted = PAGE;
/** Containers whose changes are told on this connection. */
let followed = new Set<string>();
const LIST = "list";
/** The turns that were heard to begin or end since the running ones were last asked for. */
let since = new Map<string, boolean>();
let timer: ReturnType<typeof setTimeout> | undefined;

const CHANGES = new Set([
  "session_created", "session_title_updated", "session_updated", "session_deleted", "session_restored", "session_forked",
  "session_read", "image_created", "image_deleted", "user_message", "turn_response",
]);

/** Keeps the list up to date until the returned function is called. */
export function watchSessions(): () => void {
  wanted = PAGE;
  const endings = [onOpen(() => void begun()), onNotice(noticed)];
  void kept<SessionRow[]>(ownerName(), LIST).then((rows) => (sessions.value ??= rows));
  return () => {
    clearTimeout(timer);
    for (const end of endings) end();
  };
}

/** A new connection: what was missed is read, after what comes from now on is followed. */
async function begun(): Promise<void> {
  followed = new Set([home()]);
  followContainer(home());
  // What changed in a container between being listed and being followed is told by nobody.
  while (await refresh()) continue;
  await running().catch(() => undefined);
}

/** The sessions that are being answered. What is heard while they are read is newer than the list. */
async function running(): Promise<void> {
  const heard = (since = new Map<string, boolean>());
  const { items } = await request<{ items: { sessionId: string }[] }>("GET", "/v1/turns?outcome=running&limit=100");
  const next = new Set(items.map((turn) => turn.sessionId));
  for (const [sessionId, runs] of heard) {
    if (runs) next.add(sessionId);
    else next.delete(sessionId);
  }
  // The same sessions draw nothing.
  if (next.size !== answering.value.size || [...next].some((sessionId) => !answering.value.has(sessionId))) answering.value = next;
}

function noticed(frame: EventFrame): void {
  const sessionId = frame.context?.sessionId ?? frame.data?.sessionId;
  if (sessionId !== undefined && (frame.type === "turn_request" || frame.type === "turn_response")) {
    const next = new Set(answering.value);
    since.set(sessionId, frame.type === "turn_request");
    if (frame.type === "turn_request") next.add(sessionId);
    else next.delete(sessionId);
    answering.value = next;
  }
  if (!CHANGES.has(frame.type)) return;
  // Several changes of one moment are one reading.
  clearTimeout(timer);
  timer = setTimeout(() => void refresh(), 150);
}

/** Reads the list; true if it has containers that are followed only from now on. */
export async function refresh(): Promise<boolean> {
  try {
    const count = wanted;
    const { rows: all, next } = await browse(count);
    // Who has asked for more meanwhile is given them by that reading.
    if (count !== wanted) return false;
    hasMore.value = next !== undefined;
    const before = followed.size;
    for (const { containerId } of all) {
      followed.add(containerId);
      followContainer(containerId);
    }
    // A client of the API may have built an agent whose first session nobody has used.
    const rows = all.filter((row) => row.lastMessageAt !== undefined || row.title != null || row.pinnedAt !== undefined || row.forkedFrom !== undefined);
    // The same list draws nothing.
    if (JSON.stringify(rows) !== JSON.stringify(sessions.value)) sessions.value = rows;
    void keep(ownerName(), LIST, rows);
    return followed.size > before;
  } catch {
    // Read again when the connection is back.
    return false;
  }
}

/** Reads as many of the newest conversations as are wanted, in pages. */
async function browse(count: number): Promise<{ rows: SessionRow[]; next: string | undefined }> {
  const rows: SessionRow[] = [];
  let next: string | undefined;
  do {
    const page = await ask("session_browse", { limit: Math.min(PAGE_MAX, count - rows.length), ...(next !== undefined && { cursor: next }) });
    rows.push(...page.sessions);
    next = page.nextCursor;
  } while (next !== undefined && rows.length < count);
  return { rows, next };
}

/** Shows older conversations, too. */
export async function showMore(): Promise<void> {
  wanted += PAGE;
  while (await refresh()) continue;
}

/** The conversation before or after an open one, in the order of the list. */
export function neighbour(sessionId: string | undefined, step: number): string | undefined {
  const all = sessions.value ?? [];
  const index = all.findIndex((row) => row.sessionId === sessionId);
  return index < 0 ? all.at(0)?.sessionId : all[index + step]?.sessionId;
}

/** The container in which a user begins: the first of their own, else the default one. */
export function home(): string {
  return identity.value?.containers?.[0] ?? "default";
}

/** A new conversation with the default agent, or with the given one. Returns its id. */
export async function begin(definition?: string): Promise<string> {
  const config = definition === undefined ? {} : { definition };
  const { record } = await ask("image_create", { containerId: home(), config });
  return record.sessionId;
}

export const rename = (sessionId: string, title: string) =>
  ask("session_set_title", { sessionId, title: title.trim() === "" ? null : title.trim() });
export const pin = (sessionId: string, pinned: boolean) => ask("session_pin", { sessionId, pinned });
export const archive = (sessionId: string, archived: boolean) => ask("session_archive", { sessionId, archived });
/** A page of the conversations that are not in the list: archived ones, or deleted ones that can be restored. */
export const putAway = (kind: "archived" | "deleted", cursor?: string) =>
  ask("session_browse", { [kind]: true, limit: PAGE, ...(cursor !== undefined && { cursor }) });
export const remove = (sessionId: string) => ask("session_delete", { sessionId });
export const restore = (sessionId: string) => ask("session_restore", { sessionId });
