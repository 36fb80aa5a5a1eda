/**
 * Store — the rows of one container, in the SQLite of its object.
 *
 * Rows written are what storage costs here. So there is one row for a turn, written when it is accepted and when it ends, and
 * no index: tables are without rowids, and their primary keys are the order in which they are read. An object that was only
 * asked holds nothing at all: the tables are made with the first row.
 */

import type { Accepted, AcceptRequest, FoldRequest, Image, LedgerEntry, ReserveRequest, StoredTurn, TurnState, Wait } from "./records.ts";
import type { UserMessage } from "../../clients/typescript/src/types.ts";

export const INBOX_MAX = 32;
/** Turns that a new turn is told of, and their bytes at most. */
const HISTORY_TURNS_MAX = 100;
const HISTORY_MAX_BYTES = 512 * 1024;
/** Numbers that a run of a turn may give to events before it asks for more. Only the object knows them if its Worker is lost. */
const RESERVED = 256;

const SCHEMA = [
  "CREATE TABLE IF NOT EXISTS containers (name TEXT PRIMARY KEY, object TEXT NOT NULL, created_at INTEGER NOT NULL) WITHOUT ROWID",
  "CREATE TABLE IF NOT EXISTS images (image_id TEXT PRIMARY KEY, session_id TEXT NOT NULL, agent_id TEXT, body TEXT NOT NULL) WITHOUT ROWID",
  `CREATE TABLE IF NOT EXISTS turns (session_id TEXT, n INTEGER, turn_id TEXT NOT NULL, state TEXT NOT NULL, runner TEXT NOT NULL,
     attempt INTEGER NOT NULL, accepted_at INTEGER NOT NULL, client_key TEXT, user TEXT NOT NULL, first_seq INTEGER NOT NULL,
     last_seq INTEGER NOT NULL, body BLOB, waits TEXT NOT NULL, entry TEXT NOT NULL, PRIMARY KEY (session_id, n)) WITHOUT ROWID`,
  // Entries whose turns are gone.
  "CREATE TABLE IF NOT EXISTS ledger (id TEXT PRIMARY KEY, entry TEXT NOT NULL) WITHOUT ROWID",
];

export interface TurnRow {
  session_id: string;
  n: number;
  turn_id: string;
  state: TurnState;
  runner: string;
  attempt: number;
  accepted_at: number;
  user: string;
  first_seq: number;
  /** While the turn runs: the last number that is reserved for it. */
  last_seq: number;
  body: string | ArrayBuffer | null;
  waits: string;
}

interface ImageRow {
  image_id: string;
  session_id: string;
  agent_id: string | null;
  body: string;
}

export class Store {
  #sql: SqlStorage;
  #made: boolean;
  /** Rows written since the last look. */
  written = 0;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
    const tables = this.#rows("SELECT 1 FROM sqlite_master WHERE name IN ('turns', 'ledger')").length;
    // One table: an object of a Worker before this one.
    if (tables === 1) this.#make();
    this.#made = tables > 0;
  }

  // --- the container, and the list of containers of a tenant

  /** The container of this object, and the name under which Workers find the object. */
  container(): { name: string; object: string; createdAt: number } | undefined {
    const [row] = this.#read<{ name: string; object: string; created_at: number }>("SELECT name, object, created_at FROM containers LIMIT 1");
    return row && { name: row.name, object: row.object, createdAt: row.created_at };
  }

  addContainer(name: string, object: string, at: number): void {
    this.#write("INSERT OR IGNORE INTO containers VALUES (?, ?, ?)", name, object, at);
  }

  containers(after: string, limit: number): string[] {
    return this.#read<{ name: string }>("SELECT name FROM containers WHERE name > ? ORDER BY name LIMIT ?", after, limit).map((row) => row.name);
  }

  // --- images

  image(imageId: string): Image | undefined {
    return this.#images("WHERE image_id = ?", imageId)[0];
  }

  imageOfSession(sessionId: string): Image | undefined {
    return this.#images("WHERE session_id = ?", sessionId)[0];
  }

  imageOfAgent(agentId: string): Image | undefined {
    return this.#images("WHERE agent_id = ?", agentId)[0];
  }

  images(): Image[] {
    return this.#images("").sort((one, other) => other.createdAt - one.createdAt || (one.imageId < other.imageId ? 1 : -1));
  }

  putImage(image: Image): void {
    const { agentId, ...body } = image;
    this.#write("INSERT OR REPLACE INTO images VALUES (?, ?, ?, ?)", image.imageId, image.sessionId, agentId ?? null, JSON.stringify(body));
  }

  setAgent(imageId: string, agentId: string | null): void {
    this.#write("UPDATE images SET agent_id = ? WHERE image_id = ?", agentId, imageId);
  }

  deleteImage(image: Image): void {
    this.#keepEntries(image.sessionId, 0);
    this.#write("DELETE FROM turns WHERE session_id = ?", image.sessionId);
    this.#write("DELETE FROM images WHERE image_id = ?", image.imageId);
  }

  // --- turns

  turn(sessionId: string, n: number): TurnRow | undefined {
    return this.#turns("WHERE session_id = ? AND n = ?", sessionId, n)[0];
  }

  last(sessionId: string): TurnRow | undefined {
    return this.#turns("WHERE session_id = ? ORDER BY n DESC LIMIT 1", sessionId)[0];
  }

  /** The turns of a session that have not ended. They are the last ones. */
  open(sessionId: string): TurnRow[] {
    return this.#turns("WHERE session_id = ? AND state != 'ended' ORDER BY n", sessionId);
  }

  /** The turns of the container that have not ended. */
  unfinished(): TurnRow[] {
    return this.#turns("WHERE state IN ('running', 'parked')");
  }

  sentBefore(sessionId: string, clientKey: string): TurnRow | undefined {
    return this.#turns("WHERE session_id = ? AND client_key = ?", sessionId, clientKey)[0];
  }

  insert(image: Image, request: AcceptRequest, n: number, state: TurnState, firstSeq: number, at: number): void {
    this.#write(
      "INSERT INTO turns VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, NULL, '[]', '')",
      image.sessionId, n, request.turnId, state, state === "running" ? request.runner : "", at,
      request.clientKey ?? null, JSON.stringify(request.user), firstSeq, state === "running" ? firstSeq + RESERVED : firstSeq,
    );
  }

  /** Stores what a Worker has made of its turn; false if it is not its turn any more. */
  fold(request: FoldRequest): boolean {
    return (
      this.#write(
        `UPDATE turns SET state = ?, last_seq = ?, body = ?, waits = ?, entry = entry || ?, runner = CASE WHEN ? = 'running' THEN runner ELSE '' END
         WHERE session_id = ? AND n = ? AND turn_id = ? AND state = 'running' AND runner = ? AND attempt = ?`,
        request.state, request.lastSeq, request.body, JSON.stringify(request.waits), request.entries, request.state,
        request.sessionId, request.n, request.turnId, request.runner, request.attempt,
      ) > 0
    );
  }

  /** Lets a Worker run a turn, from the number on that follows the last one; without a runner it will be handed out. */
  run(row: TurnRow, runner: string, firstSeq: number): number {
    const reserved = runner === "" ? firstSeq : firstSeq + RESERVED;
    this.#write(
      "UPDATE turns SET state = 'running', runner = ?, first_seq = ?, last_seq = ? WHERE session_id = ? AND n = ?",
      runner, firstSeq, reserved, row.session_id, row.n,
    );
    return reserved;
  }

  /** Gives a turn to a Worker whose first one is gone. */
  rerun(row: TurnRow, runner: string): number {
    const reserved = row.last_seq + RESERVED;
    this.#write("UPDATE turns SET runner = ?, last_seq = ? WHERE session_id = ? AND n = ?", runner, reserved, row.session_id, row.n);
    return reserved;
  }

  /** Reserves numbers for the events of a turn; false if it is not that Worker's turn any more. */
  reserve({ sessionId, n, turnId, attempt, runner, lastSeq }: ReserveRequest): boolean {
    return (
      this.#write(
        `UPDATE turns SET last_seq = max(last_seq, ?)
         WHERE session_id = ? AND n = ? AND turn_id = ? AND state = 'running' AND runner = ? AND attempt = ?`,
        lastSeq, sessionId, n, turnId, runner, attempt,
      ) > 0
    );
  }

  /** Takes a turn from a Worker that is gone. */
  orphan(row: TurnRow): void {
    this.#write("UPDATE turns SET runner = '', attempt = attempt + 1 WHERE session_id = ? AND n = ?", row.session_id, row.n);
  }

  setWaits(row: TurnRow, waits: readonly Wait[]): void {
    this.#write("UPDATE turns SET waits = ? WHERE session_id = ? AND n = ?", JSON.stringify(waits), row.session_id, row.n);
  }

  /** Deletes the turns after one, which may get another body: a part of it was taken back. */
  rewind(sessionId: string, n: number, body: string | ArrayBuffer | null): void {
    // Numbers of events are never used twice.
    const seq = this.reservedSeq(sessionId);
    this.#keepEntries(sessionId, n);
    this.#write("DELETE FROM turns WHERE session_id = ? AND n > ?", sessionId, n);
    this.#write("UPDATE turns SET last_seq = ?, body = coalesce(?, body) WHERE session_id = ? AND n = ?", seq, body, sessionId, n);
  }

  /** The number of the last event of a session that is stored. */
  lastSeq(sessionId: string): number {
    const last = this.#begun(sessionId);
    return last === undefined ? 0 : last.state === "running" ? last.first_seq : last.last_seq;
  }

  /** The number of the last event that may have been told of a session. */
  reservedSeq(sessionId: string): number {
    return this.#begun(sessionId)?.last_seq ?? 0;
  }

  #begun(sessionId: string): TurnRow | undefined {
    return this.#turns("WHERE session_id = ? AND state IN ('ended', 'running', 'parked') ORDER BY n DESC LIMIT 1", sessionId)[0];
  }

  /** The ended turns of a session before a turn, oldest first: as many of the last ones as fit. */
  history(sessionId: string, before: number, maxBytes: number = HISTORY_MAX_BYTES): StoredTurn[] {
    const rows = this.#turns(`WHERE session_id = ? AND n < ? ORDER BY n DESC LIMIT ${HISTORY_TURNS_MAX}`, sessionId, before);
    const kept: StoredTurn[] = [];
    let bytes = 0;
    for (const row of rows) {
      const turn = stored(row);
      bytes += typeof turn.body === "string" ? turn.body.length : turn.body.byteLength;
      if (bytes > maxBytes && kept.length > 0) break;
      kept.push(turn);
    }
    return kept.reverse();
  }

  /** The turns that have events after a number. */
  after(sessionId: string, seq: number): StoredTurn[] {
    return this.#turns("WHERE session_id = ? AND state IN ('ended', 'parked') AND last_seq > ? ORDER BY n", sessionId, seq).map(stored);
  }

  // --- the ledger

  /** The entries that are kept here, some of them. */
  entries(limit: number): LedgerEntry[] {
    const rows = this.#read<{ entry: string }>("SELECT entry FROM turns WHERE entry != '' UNION ALL SELECT entry FROM ledger LIMIT ?", limit);
    return rows.flatMap((row) => linesOf(row.entry)).slice(0, limit);
  }

  hasEntries(): boolean {
    return this.entries(1).length > 0;
  }

  /** Keeps entries whose turn is gone, or belongs to another Worker. */
  keepEntries(entries: string): void {
    const [first] = linesOf(entries);
    if (first !== undefined) this.#write("INSERT OR IGNORE INTO ledger VALUES (?, ?)", first.id, entries);
  }

  /** Forgets entries that somebody else has. */
  dropEntries(ids: ReadonlySet<string>): void {
    const rest = (entry: string): string => linesOf(entry).filter(({ id }) => !ids.has(id)).map((line) => `${JSON.stringify(line)}\n`).join("");
    for (const row of this.#read<{ session_id: string; n: number; entry: string }>("SELECT session_id, n, entry FROM turns WHERE entry != ''")) {
      if (linesOf(row.entry).some(({ id }) => ids.has(id))) this.#write("UPDATE turns SET entry = ? WHERE session_id = ? AND n = ?", rest(row.entry), row.session_id, row.n);
    }
    for (const row of this.#read<{ id: string; entry: string }>("SELECT id, entry FROM ledger")) {
      const left = rest(row.entry);
      if (left === "") this.#write("DELETE FROM ledger WHERE id = ?", row.id);
      else if (left.length < row.entry.length) this.#write("UPDATE ledger SET entry = ? WHERE id = ?", left, row.id);
    }
  }

  #keepEntries(sessionId: string, n: number): void {
    this.#write("INSERT OR IGNORE INTO ledger SELECT turn_id, entry FROM turns WHERE session_id = ? AND n > ? AND entry != ''", sessionId, n);
  }

  #images(where: string, ...values: unknown[]): Image[] {
    return this.#read<ImageRow>(`SELECT image_id, session_id, agent_id, body FROM images ${where}`, ...values).map((row) => ({
      ...(JSON.parse(row.body) as Image),
      ...(row.agent_id === null ? {} : { agentId: row.agent_id }),
    }));
  }

  #turns(where: string, ...values: unknown[]): TurnRow[] {
    const columns = "session_id, n, turn_id, state, runner, attempt, accepted_at, user, first_seq, last_seq, body, waits";
    return this.#read<TurnRow>(`SELECT ${columns} FROM turns ${where}`, ...values);
  }

  #read<Row>(query: string, ...values: unknown[]): Row[] {
    return this.#made ? this.#rows<Row>(query, ...values) : [];
  }

  #rows<Row>(query: string, ...values: unknown[]): Row[] {
    return this.#sql.exec<Row>(query, ...values).toArray();
  }

  #make(): void {
    for (const table of SCHEMA) this.#sql.exec(table);
  }

  #write(query: string, ...values: unknown[]): number {
    if (!this.#made) this.#make();
    this.#made = true;
    const cursor = this.#sql.exec(query, ...values);
    cursor.toArray();
    this.written += cursor.rowsWritten;
    return cursor.rowsWritten;
  }
}

const linesOf = (entries: string): LedgerEntry[] => entries.split("\n").filter(Boolean).map((line) => JSON.parse(line) as LedgerEntry);

function stored(row: TurnRow): StoredTurn {
  const body = row.body ?? JSON.stringify({ messages: [JSON.parse(row.user) as UserMessage], events: [] });
  return { turnId: row.turn_id, n: row.n, state: row.state, firstSeq: row.first_seq, lastSeq: row.last_seq, body };
}

/** The turn of a row, for the Worker that is to run it. */
export function acceptedOf(row: TurnRow, image: Image, agentIsNew: boolean, seqs: Pick<Accepted, "firstSeq" | "reserved" | "lost">, history: StoredTurn[], listeners: number): Accepted {
  return {
    image,
    agentId: image.agentId ?? "",
    agentIsNew,
    turnId: row.turn_id,
    n: row.n,
    attempt: row.attempt,
    acceptedAt: row.accepted_at,
    user: JSON.parse(row.user) as UserMessage,
    ...(row.body === null ? {} : { body: row.body }),
    waits: JSON.parse(row.waits) as Wait[],
    ...seqs,
    history,
    listeners,
  };
}
