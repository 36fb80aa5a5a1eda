/**
 * Entries — the ledger of one container. The entries of a turn are in its row, without what the row says anyway; those whose turn
 * is gone, and those that the server does not take, have rows of their own.
 */

import type { FoldRequest, LedgerEntry } from "./records.ts";
import type { Rows } from "./rows.ts";
import { SESSION_OF_TURN } from "./schema.ts";

/** A row of a turn, or of the ledger, with entries. */
interface EntryRow {
  id: number | string;
  turn_id: string;
  entry: string;
  session_id: string;
  image_id: string;
  container_id: string;
}

const OF_TURNS = `SELECT id, turn_id, entry, session_id, image_id, (SELECT name FROM containers) AS container_id
  FROM turns JOIN images ON number = ${SESSION_OF_TURN} WHERE entry != ''`;

export class Entries {
  #rows: Rows;

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** The entries that are kept here, some of them; those that the server does not take come last. */
  kept(limit: number): LedgerEntry[] {
    const unsent = this.unsent(limit);
    const refused = this.#rows.all<{ entry: string }>("SELECT entry FROM refused LIMIT ?", limit - unsent.length);
    return [...unsent, ...refused.flatMap((row) => linesOf(row.entry))];
  }

  /** The entries that are still to be sent to the server, some of them. */
  unsent(limit: number): LedgerEntry[] {
    const ofTurns = this.#rows.all<EntryRow>(`${OF_TURNS} LIMIT ?`, limit).flatMap(entriesOf);
    const others = this.#rows.all<{ entry: string }>("SELECT entry FROM ledger LIMIT ?", limit).flatMap((row) => linesOf(row.entry));
    return [...ofTurns, ...others].slice(0, limit);
  }

  /** Keeps an entry that the server does not take, apart from those that are to be sent. */
  setAside(entry: LedgerEntry): void {
    this.drop(new Set([entry.id]));
    this.#rows.change("INSERT OR REPLACE INTO refused VALUES (?, ?)", entry.id, JSON.stringify(entry));
  }

  /** Keeps entries whose turn is gone, or belongs to another Worker. */
  keep(entries: readonly LedgerEntry[]): void {
    const [first] = entries;
    if (first !== undefined) this.#rows.change("INSERT OR IGNORE INTO ledger VALUES (?, ?)", first.id, textOf(entries));
  }

  /** Keeps the entries of turns that are about to be deleted: those between two keys. */
  keepOf(after: number, before: number): void {
    for (const row of this.#rows.all<EntryRow>(`${OF_TURNS} AND id > ? AND id < ?`, after, before)) this.keep(entriesOf(row));
  }

  /** Forgets entries that somebody else has. */
  drop(ids: ReadonlySet<string>): void {
    const isLeft = ({ id }: { id: string }): boolean => !ids.has(id);
    for (const table of ["turns", "ledger", "refused"]) {
      for (const row of this.#rows.all<{ id: number | string; entry: string }>(`SELECT id, entry FROM ${table} WHERE entry != ''`)) {
        const lines = linesOf<{ id: string }>(row.entry);
        const left = lines.filter(isLeft);
        if (left.length === lines.length) continue;
        if (left.length === 0 && table !== "turns") this.#rows.change(`DELETE FROM ${table} WHERE id = ?`, row.id);
        else this.#rows.change(`UPDATE ${table} SET entry = ? WHERE id = ?`, textOf(left), row.id);
      }
    }
  }
}

/** The text of entries in the row of their turn. */
export function packEntries(request: FoldRequest): string {
  return textOf(request.entries.map((entry) => ({ ...entry, containerId: undefined, imageId: undefined, sessionId: undefined, turnId: undefined })));
}

function entriesOf(row: EntryRow): LedgerEntry[] {
  const known = { containerId: row.container_id, imageId: row.image_id, sessionId: row.session_id, turnId: row.turn_id };
  return linesOf<LedgerEntry>(row.entry).map((entry) => ({ ...entry, ...known }));
}

const textOf = (entries: readonly object[]): string => entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");

const linesOf = <Line = LedgerEntry>(text: string): Line[] => text.split("\n").filter(Boolean).map((line) => JSON.parse(line) as Line);
