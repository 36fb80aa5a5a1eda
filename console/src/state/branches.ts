/** The tree of the conversations that were forked from one another. */

import type { SessionRow } from "../link/frames.ts";
import { ask } from "../link/socket.ts";

export interface Branch {
  row: SessionRow;
  children: Branch[];
}

const DEPTH_MAX = 8;
const FORKS_MAX = 50;

/** Reads the tree in which a session stands, from its root. An ancestor that was deleted ends the way up. */
export async function readTree(sessionId: string): Promise<Branch | undefined> {
  let root = await read(sessionId);
  for (let step = 0; root?.forkedFrom !== undefined && step < DEPTH_MAX; step += 1) {
    const parent = await read(root.forkedFrom.sessionId);
    if (parent === undefined) break;
    root = parent;
  }
  return root === undefined ? undefined : grow(root, DEPTH_MAX);
}

async function read(sessionId: string): Promise<SessionRow | undefined> {
  return (await ask("session_get", { sessionId })).session ?? undefined;
}

async function grow(row: SessionRow, depth: number): Promise<Branch> {
  if (depth === 0) return { row, children: [] };
  const { sessions } = await ask("session_browse", { forkedFrom: row.sessionId, archived: "all", limit: FORKS_MAX });
  return { row, children: await Promise.all(sessions.map((fork) => grow(fork, depth - 1))) };
}
