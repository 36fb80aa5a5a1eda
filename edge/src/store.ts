/**
 * Store — the rows of one container, in the SQLite of its object.
 *
 * Rows written and bytes stored are what storage costs here. So there is one row for a turn, written when it is accepted and when
 * it ends, and no index: the key of a turn is made of the number of its session and its own, so those of a session lie together,
 * in order. An object that was only asked holds nothing at all: the tables are made with the first row.
 */

import type { UserMessage } from "../../clients/typescript/src/types.ts";
import { Entries, packEntries } from "./entries.ts";
import { STOPPED_ATTEMPT } from "./records.ts";
import type { AcceptReply, Accepted, AcceptRequest, FoldRequest, Image, ReserveRequest, StoredTurn, TurnState, Wait } from "./records.ts";
import { Rows } from "./rows.ts";
import { SESSION_OF_TURN, TURNS_MAX } from "./schema.ts";

export const INBOX_MAX = 32;
/** Turns that a new turn is told of, and their bytes at most. */
const HISTORY_TURNS_MAX = 100;
const HISTORY_MAX_BYTES = 512 * 1024;
/** Bytes of turns that are read at once, for each of their packed ones: an isolate has 128 MB for all of its clients. */
const UNPACKED_RATIO_MAX = 4;
const REPLAY_MAX_BYTES = 4 * 1024 * 1024;
/** Numbers that a run of a turn may give to events before it asks for more. Only the object knows them if its Worker is lost. */
const RESERVED = 256;

const TURN_COLUMNS = `id, (SELECT session_id FROM images WHERE number = ${SESSION_OF_TURN}) AS session_id, id % ${TURNS_MAX} AS n, turn_id, state, runner, attempt,
  accepted_at, user, first_seq, last_seq, body, waits`;

export interface TurnRow {
  id: number;
  session_id: string;
  n: number;
  turn_id: string;
  state: TurnState;
  runner: string;
  attempt: number;
  accepted_at: number;
  /** The user's message; only its id once there is a body, which has it. */
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
  readonly rows: Rows;
  readonly entries: Entries;
  /** The keys before those of the turns of sessions. */
  #bases = new Map<string, number>();

  constructor(sql: SqlStorage) {
    this.rows = new Rows(sql);
    this.entries = new Entries(this.rows);
  }

  // --- the container, and the list of containers of a tenant

  /** The container of this object, and the name under which Workers find the object. */
  container(): { name: string; object: string; createdAt: number } | undefined {
    const [row] = this.rows.all<{ name: string; object: string; created_at: number }>("SELECT name, object, created_at FROM containers LIMIT 1");
    return row && { name: row.name, object: row.object, createdAt: row.created_at };
  }

  addContainer(name: string, object: string, at: number): void {
    this.rows.change("INSERT OR IGNORE INTO containers VALUES (?, ?, ?)", name, object, at);
  }

  containers(after: string, limit: number): string[] {
    return this.rows.all<{ name: string }>("SELECT name FROM containers WHERE name > ? ORDER BY name LIMIT ?", after, limit).map((row) => row.name);
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
    const values = [image.sessionId, agentId ?? null, JSON.stringify(body), image.imageId];
    if (this.rows.change("UPDATE images SET session_id = ?, agent_id = ?, body = ? WHERE image_id = ?", ...values) > 0) return;
    this.rows.change("INSERT INTO images (session_id, agent_id, body, image_id) VALUES (?, ?, ?, ?)", ...values);
  }

  setAgent(imageId: string, agentId: string | null): void {
    this.rows.change("UPDATE images SET agent_id = ? WHERE image_id = ?", agentId, imageId);
  }

  deleteImage(image: Image): void {
    const base = this.#base(image.sessionId);
    this.entries.keepOf(base, base + TURNS_MAX);
    this.rows.change("DELETE FROM turns WHERE id > ? AND id < ?", base, base + TURNS_MAX);
    this.rows.change("DELETE FROM images WHERE image_id = ?", image.imageId);
    this.#bases.delete(image.sessionId);
  }

  // --- turns

  turn(sessionId: string, n: number): TurnRow | undefined {
    return this.#turns(sessionId, "AND id = ?", this.#base(sessionId) + n)[0];
  }

  last(sessionId: string): TurnRow | undefined {
    return this.#turns(sessionId, "ORDER BY id DESC LIMIT 1")[0];
  }

  /** The turns of a session that have not ended. They are the last ones. */
  open(sessionId: string): TurnRow[] {
    const open: TurnRow[] = [];
    for (const row of this.#newestFirst(sessionId, Number.POSITIVE_INFINITY)) {
      if (row.state === "ended") break;
      open.push(row);
    }
    return open.reverse();
  }

  /** The turns of the container that have not ended. */
  unfinished(): TurnRow[] {
    const sessions = this.rows.all<{ session_id: string }>("SELECT session_id FROM images");
    return sessions.flatMap((row) => this.open(row.session_id)).filter((row) => row.state !== "queued");
  }

  sentBefore(sessionId: string, clientKey: string): TurnRow | undefined {
    return this.#turns(sessionId, "AND client_key = ?", clientKey)[0];
  }

  insert(image: Image, request: AcceptRequest, n: number, state: TurnState, firstSeq: number, at: number): void {
    this.rows.change(
      "INSERT INTO turns VALUES (?, ?, ?, ?, 0, ?, ?, ?, ?, '[]', '', ?, NULL)",
      this.#base(image.sessionId) + n, request.turnId, state, state === "running" ? request.runner : "", at,
      request.clientKey ?? null, firstSeq, state === "running" ? firstSeq + RESERVED : firstSeq, JSON.stringify(request.user),
    );
  }

  /** Stores what a Worker has made of its turn; false if it is not its turn any more. The user's message is in the body from then on. */
  fold(request: FoldRequest): boolean {
    const entries = packEntries(request);
    return (
      this.rows.change(
        `UPDATE turns SET state = ?, last_seq = ?, body = ?, waits = ?, user = json_object('id', json_extract(user, '$.id')),
           entry = CASE WHEN instr(entry, ?) > 0 THEN entry ELSE entry || ? END, runner = CASE WHEN ? = 'running' THEN runner ELSE '' END
         WHERE id = ? AND turn_id = ? AND state = 'running' AND runner = ? AND attempt = ?`,
        request.state, request.lastSeq, request.body, JSON.stringify(request.waits), entries, entries, request.state,
        this.#base(request.sessionId) + request.n, request.turnId, request.runner, request.attempt,
      ) > 0
    );
  }

  /** Whether a Worker has stored this before, and did not hear of it. */
  hasFolded({ sessionId, n, turnId, attempt, state, lastSeq }: FoldRequest): boolean {
    const row = this.turn(sessionId, n);
    return row?.turn_id === turnId && row.attempt === attempt && row.state === state && row.last_seq === lastSeq && row.runner === "";
  }

  /** Lets a Worker run a turn, from the number on that follows the last one; without a runner it will be handed out. */
  run(row: TurnRow, runner: string, firstSeq: number): number {
    const reserved = runner === "" ? firstSeq : firstSeq + RESERVED;
    this.rows.change(
      "UPDATE turns SET state = 'running', runner = ?, first_seq = ?, last_seq = ? WHERE id = ?",
      runner, firstSeq, reserved, row.id,
    );
    return reserved;
  }

  /** Gives a turn to a Worker whose first one is gone. */
  rerun(row: TurnRow, runner: string): number {
    const reserved = row.last_seq + RESERVED;
    this.rows.change("UPDATE turns SET runner = ?, last_seq = ? WHERE id = ?", runner, reserved, row.id);
    return reserved;
  }

  /** Reserves numbers for the events of a turn; false if it is not that Worker's turn any more. */
  reserve({ sessionId, n, turnId, attempt, runner, lastSeq }: ReserveRequest): boolean {
    return (
      this.rows.change(
        `UPDATE turns SET last_seq = max(last_seq, ?)
         WHERE id = ? AND turn_id = ? AND state = 'running' AND runner = ? AND attempt = ?`,
        lastSeq, this.#base(sessionId) + n, turnId, runner, attempt,
      ) > 0
    );
  }

  /** Takes a turn from a Worker that is gone. */
  orphan(row: TurnRow): void {
    this.rows.change("UPDATE turns SET runner = '', attempt = attempt + 1 WHERE id = ?", row.id);
  }

  /** Lets the turns of a session that wait end when they begin: their agent was stopped. */
  stopQueued(sessionId: string): void {
    const base = this.#base(sessionId);
    const queued = this.open(sessionId).filter((row) => row.state === "queued");
    for (const row of queued) this.rows.change("UPDATE turns SET attempt = ? WHERE id = ?", STOPPED_ATTEMPT, base + row.n);
  }

  setWaits(row: TurnRow, waits: readonly Wait[]): void {
    this.rows.change("UPDATE turns SET waits = ? WHERE id = ?", JSON.stringify(waits), row.id);
  }

  /** Deletes the turns after one, which may get another body: a part of it was taken back. */
  rewind(sessionId: string, n: number, body: string | ArrayBuffer | null): void {
    // Numbers of events are never used twice.
    const seq = this.reservedSeq(sessionId);
    const base = this.#base(sessionId);
    this.entries.keepOf(base + n, base + TURNS_MAX);
    this.rows.change("DELETE FROM turns WHERE id > ? AND id < ?", base + n, base + TURNS_MAX);
    this.rows.change("UPDATE turns SET last_seq = ?, body = coalesce(?, body) WHERE id = ?", seq, body, base + n);
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
    return this.#turns(sessionId, "AND state IN ('ended', 'running', 'parked') ORDER BY id DESC LIMIT 1")[0];
  }

  /** The turns of a session before a turn, oldest first: as many of the last ones as a new turn is told of. */
  history(sessionId: string, before: number): StoredTurn[] {
    return this.#newest(sessionId, before, HISTORY_TURNS_MAX, HISTORY_MAX_BYTES);
  }

  /** All turns of a session, oldest first; of a very long one the last ones. */
  all(sessionId: string, maxBytes: number): StoredTurn[] {
    return this.#newest(sessionId, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, maxBytes);
  }

  #newest(sessionId: string, before: number, turns: number, maxBytes: number, isWanted: (row: TurnRow) => boolean = () => true): StoredTurn[] {
    const kept: StoredTurn[] = [];
    let bytes = 0;
    let unpacked = 0;
    for (const row of this.#newestFirst(sessionId, before)) {
      if (!isWanted(row)) break;
      const turn = stored(row);
      bytes += typeof turn.body === "string" ? turn.body.length : turn.body.byteLength;
      unpacked += unpackedSize(turn.body);
      if ((bytes > maxBytes || unpacked > maxBytes * UNPACKED_RATIO_MAX) && kept.length > 0) break;
      if (kept.push(turn) >= turns) break;
    }
    return kept.reverse();
  }

  /** Whether stored turns have events after a number. */
  hasAfter(sessionId: string, seq: number): boolean {
    return this.#turns(sessionId, "AND state IN ('ended', 'parked') AND last_seq > ? LIMIT 1", seq).length > 0;
  }

  /** The turns that have events after a number, oldest first; of very many the last ones. */
  after(sessionId: string, seq: number): StoredTurn[] {
    const open = this.open(sessionId).filter((row) => row.state !== "parked");
    const before = Math.min(...open.map((row) => row.n));
    return this.#newest(sessionId, before, Number.POSITIVE_INFINITY, REPLAY_MAX_BYTES, (row) => row.last_seq > seq);
  }

  #images(where: string, ...values: unknown[]): Image[] {
    return this.rows.all<ImageRow>(`SELECT image_id, session_id, agent_id, body FROM images ${where}`, ...values).map((row) => ({
      ...(JSON.parse(row.body) as Image),
      ...(row.agent_id === null ? {} : { agentId: row.agent_id }),
    }));
  }

  /** The key before those of the turns of a session; without such a session there are no turns beside it. */
  #base(sessionId: string): number {
    const known = this.#bases.get(sessionId);
    if (known !== undefined) return known;
    const [row] = this.rows.all<{ number: number }>("SELECT number FROM images WHERE session_id = ?", sessionId);
    if (row === undefined) return 0;
    this.#bases.set(sessionId, row.number * TURNS_MAX);
    return row.number * TURNS_MAX;
  }

  #turns(sessionId: string, rest: string, ...values: unknown[]): TurnRow[] {
    const base = this.#base(sessionId);
    return this.rows.all<TurnRow>(`SELECT ${TURN_COLUMNS} FROM turns WHERE id > ? AND id < ? ${rest}`, base, base + TURNS_MAX, ...values);
  }

  /** The turns of a session before a turn, row by row: what nobody asks for is not read. */
  #newestFirst(sessionId: string, before: number): Generator<TurnRow> {
    const base = this.#base(sessionId);
    const query = `SELECT ${TURN_COLUMNS} FROM turns WHERE id > ? AND id < ? ORDER BY id DESC`;
    return this.rows.each<TurnRow>(query, base, base + Math.min(before, TURNS_MAX));
  }
}

function stored(row: TurnRow): StoredTurn {
  const body = row.body ?? JSON.stringify({ messages: [JSON.parse(row.user) as UserMessage], events: [] });
  return { turnId: row.turn_id, n: row.n, state: row.state, firstSeq: row.first_seq, lastSeq: row.last_seq, body };
}

/** The bytes of a body before it was packed: gzip ends with their number. */
function unpackedSize(body: string | ArrayBuffer): number {
  if (typeof body === "string") return body.length;
  return body.byteLength < 4 ? 0 : new DataView(body).getUint32(body.byteLength - 4, true);
}

/** What is said again to a client that sends the same message once more. */
export function repeatedOf(image: Image, row: TurnRow): AcceptReply {
  const messageId = (JSON.parse(row.user) as { id: string }).id;
  const reply = { image, agentId: image.agentId ?? "", agentIsNew: false, turnId: row.turn_id, messageId, seq: row.first_seq };
  return { ...reply, queued: row.state === "queued", repeated: true };
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
