/**
 * Container — the object of one container: its truth, asked in bursts.
 *
 * A turn costs two requests here: it is accepted, and its end is stored. Between them the object has nothing to do, no timer and
 * no open call, so it is not awake while a model is waited for. Workers listen on sockets that survive its sleep; the socket
 * of a Worker that runs a turn is also the sign that it is alive. The alarm looks for turns whose Worker is gone: such a turn
 * is run once more by a new Worker, and after that it ends as failed.
 */

import { DurableObject } from "cloudflare:workers";
import { type Env, leaseMs } from "./env.ts";
import { push } from "./ledger.ts";
import { containerBatch, deletedBatch, lostTurn, registeredBatch, stoppedBatch } from "./batches.ts";
import type { Batch } from "./events.ts";
import * as records from "./records.ts";
import { INBOX_MAX, Store, acceptedOf, type TurnRow } from "./store.ts";

/** New runs of a turn whose Worker is gone. */
const RERUNS_MAX = 1;
/** Sessions that are named to the object; a socket that wants more hears all of them. */
const SESSIONS_NAMED_MAX = 20;
/** The longest time between two attempts to send entries to a server. */
const PUSH_WAIT_MAX_MS = 60 * 60 * 1000;

interface Listener {
  connection: string;
  /** Undefined: all of them. */
  sessions?: string[];
}

export class Container extends DurableObject<Env> {
  #store: Store;
  #alarmAt = Number.POSITIVE_INFINITY;
  /** Attempts to send entries that have failed one after the other. */
  #failedPushes = 0;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new Store(ctx.storage.sql);
    this.#log("woke", Date.now(), 0);
  }

  // --- requests of Workers: each is one burst

  async create(name: string, objectName: string, connection: string): Promise<{ isNew: boolean; createdAt: number }> {
    return this.#burst("create", () => {
      const found = this.#store.container();
      if (found !== undefined) return { isNew: false, createdAt: found.createdAt };
      const at = Date.now();
      this.#store.addContainer(name, objectName, at);
      this.#broadcast(containerBatch(name, at), connection);
      return { isNew: true, createdAt: at };
    });
  }

  async exists(): Promise<boolean> {
    return this.#burst("exists", () => this.#store.container() !== undefined);
  }

  /** In the object that lists the containers of a tenant. */
  async enlist(name: string): Promise<void> {
    this.#burst("enlist", () => this.#store.addContainer(name, "", Date.now()));
  }

  async containers(after: string, limit: number): Promise<string[]> {
    return this.#burst("containers", () => this.#store.containers(after, limit));
  }

  async images(): Promise<records.Image[]> {
    return this.#burst("images", () => this.#store.images());
  }

  async image(imageId: string): Promise<records.Image | undefined> {
    return this.#burst("image", () => this.#store.image(imageId));
  }

  async agent(agentId: string): Promise<{ image: records.Image; state: string; queued: number } | undefined> {
    return this.#burst("agent", () => {
      const image = this.#store.imageOfAgent(agentId);
      if (image === undefined) return undefined;
      const open = this.#store.open(image.sessionId);
      return { image, state: open.some((row) => row.state === "running") ? "running" : "idle", queued: open.filter((row) => row.state === "queued").length };
    });
  }

  /** Stores an image, and tells the others. */
  async putImage(image: records.Image, batch: Batch, connection: string): Promise<void> {
    this.#burst("putImage", () => {
      this.#store.putImage(image);
      this.#broadcast(batch, connection);
    });
  }

  async deleteImage(imageId: string, connection: string): Promise<records.Image | undefined> {
    return this.#burst("deleteImage", () => {
      const image = this.#store.image(imageId);
      if (image === undefined) return undefined;
      this.#interrupt(image.sessionId, false);
      this.#store.deleteImage(image);
      this.#broadcast(deletedBatch(image), connection);
      return image;
    });
  }

  async startAgent(imageId: string, agentId: string, connection: string): Promise<{ image: records.Image; reused: boolean } | undefined> {
    return this.#burst("startAgent", () => {
      const image = this.#store.image(imageId);
      if (image === undefined) return undefined;
      const reused = image.agentId !== undefined;
      return { image: reused ? image : this.#register(image, agentId, connection), reused };
    });
  }

  /** Stops the agents of images; running turns are told to end, and queued ones are taken back. */
  async stopAgents(imageIds: string[] | null, connection: string): Promise<records.Image[]> {
    return this.#burst("stopAgents", () => {
      const stopped = this.#store.images().filter((image) => image.agentId !== undefined && (imageIds === null || imageIds.includes(image.imageId)));
      for (const image of stopped) {
        this.#store.setAgent(image.imageId, null);
        this.#interrupt(image.sessionId);
        this.#broadcast(stoppedBatch(image), connection);
      }
      return stopped;
    });
  }

  async accept(request: records.AcceptRequest): Promise<records.AcceptReply | { refused: Refused }> {
    return this.#burst("accept", () => {
      const { imageId, agentId, sessionId } = request;
      let image = imageId !== undefined ? this.#store.image(imageId) : agentId !== undefined ? this.#store.imageOfAgent(agentId) : this.#store.imageOfSession(sessionId ?? "");
      if (image === undefined) return { refused: imageId !== undefined ? "image" : agentId !== undefined ? "agent" : "session" };
      if (sessionId !== undefined && sessionId !== image.sessionId) return { refused: "session" };
      const again = request.clientKey === undefined ? undefined : this.#store.sentBefore(image.sessionId, request.clientKey);
      if (again !== undefined) return this.#repeated(image, again);
      const open = this.#store.open(image.sessionId);
      const isBusy = open.some((row) => (row.state === "parked" ? request.onParked === "reject" : request.onBusy === "reject"));
      if (isBusy) return { refused: "busy" };
      if (open.length > INBOX_MAX) return { refused: "full" };
      const agentIsNew = image.agentId === undefined;
      if (agentIsNew) image = this.#register(image, request.newAgentId, request.runner);
      const at = Date.now();
      if (request.onBusy === "interrupt") this.#interrupt(image.sessionId);
      const last = this.#store.last(image.sessionId);
      const n = (last?.n ?? 0) + 1;
      const seq = this.#store.lastSeq(image.sessionId);
      this.#store.insert(image, request, n, open.length === 0 ? "running" : "queued", seq, at);
      const reply = { image, agentId: image.agentId ?? "", agentIsNew, turnId: request.turnId, messageId: request.user.id, seq, repeated: false };
      const [first] = open;
      if (first === undefined) {
        this.#watch();
        const row = this.#store.turn(image.sessionId, n) as TurnRow;
        return { ...reply, queued: false, run: this.#toRun(row, image, request.runner, agentIsNew, { firstSeq: seq, reserved: row.last_seq }) };
      }
      if (first.state !== "parked" || request.onParked === "queue") return { ...reply, queued: true };
      // The user goes on: what waits is not waited for any more.
      const waits = (JSON.parse(first.waits) as records.Wait[]).map((wait) => ({ ...wait, answer: wait.answer ?? { decision: "superseded" as const } }));
      return { ...reply, queued: true, run: this.#resume(first, image, waits, request.runner) };
    });
  }

  async fold(request: records.FoldRequest): Promise<records.FoldReply> {
    return this.#burst("fold", () => {
      if (!this.#store.fold(request)) {
        // The provider has charged for it, whoever has the turn.
        this.#store.keepEntries(request.entries);
        if (request.entries !== "" && this.env.NODE_URL) this.#watch();
        return { stored: false };
      }
      if (request.state === "running") return { stored: true };
      const image = this.#store.imageOfSession(request.sessionId);
      const [first] = this.#store.open(request.sessionId);
      if (request.state === "parked") this.#watch(Math.min(...request.waits.map((wait) => wait.expiresAt)));
      if (image === undefined || first?.state !== "queued") {
        // The alarm that was set for the turn sends its entries, those of several turns at once.
        if (this.#store.unfinished().length === 0 && !this.env.NODE_URL) this.#unwatch();
        return { stored: true };
      }
      const reserved = this.#store.run(first, request.runner, request.lastSeq);
      return { stored: true, next: this.#toRun({ ...first, runner: request.runner }, image, request.runner, false, { firstSeq: request.lastSeq, reserved }) };
    });
  }

  /** Lets a Worker number more events of its turn. */
  async reserve(request: records.ReserveRequest): Promise<boolean> {
    return this.#burst("reserve", () => this.#store.reserve(request));
  }

  /** Gives a lost turn to a new Worker; undefined if it has one, or has ended. */
  async take(rerun: records.Rerun, runner: string): Promise<records.Accepted | undefined> {
    return this.#burst("take", () => {
      const row = this.#store.turn(rerun.sessionId, rerun.n);
      const image = this.#store.imageOfSession(rerun.sessionId);
      if (row === undefined || image === undefined || row.turn_id !== rerun.turnId) return undefined;
      if (row.state !== "running" || row.runner !== "" || row.attempt !== rerun.attempt) return undefined;
      const reserved = this.#store.rerun(row, runner);
      return this.#toRun({ ...row, runner }, image, runner, false, { firstSeq: row.first_seq, reserved, lost: row.last_seq });
    });
  }

  async answer(waitId: string, sessionId: string, given: records.WaitAnswer, fingerprint: string, runner: string): Promise<AnswerReply> {
    return this.#burst("answer", () => {
      const row = this.#store.open(sessionId).find((open) => open.state === "parked");
      const waits = row === undefined ? [] : (JSON.parse(row.waits) as records.Wait[]);
      const wait = waits.find((other) => other.waitId === waitId);
      const image = this.#store.imageOfSession(sessionId);
      if (row === undefined || wait === undefined || image === undefined) return { refused: "none" };
      if (wait.fingerprint !== fingerprint) return { refused: "other" };
      if (wait.answer !== undefined) return JSON.stringify(wait.answer) === JSON.stringify(given) ? { turnId: row.turn_id } : { refused: "answered" };
      if (wait.expiresAt <= Date.now()) return { refused: "expired" };
      wait.answer = given;
      if (waits.some((other) => other.answer === undefined)) {
        this.#store.setWaits(row, waits);
        return { turnId: row.turn_id };
      }
      return { turnId: row.turn_id, run: this.#resume(row, image, waits, runner) };
    });
  }

  async waits(): Promise<{ turnId: string; sessionId: string; waits: records.Wait[] }[]> {
    return this.#burst("waits", () =>
      this.#store.unfinished().map((row) => ({ turnId: row.turn_id, sessionId: row.session_id, waits: JSON.parse(row.waits) as records.Wait[] })),
    );
  }

  async history(sessionId: string, maxBytes: number): Promise<records.StoredTurn[]> {
    return this.#burst("history", () => this.#store.history(sessionId, Number.MAX_SAFE_INTEGER, maxBytes));
  }

  async after(sessionId: string, seq: number): Promise<{ image?: records.Image; turns: records.StoredTurn[]; lastSeq: number; reservedSeq: number }> {
    return this.#burst("after", () => {
      const image = this.#store.imageOfSession(sessionId);
      return { ...(image ? { image } : {}), turns: this.#store.after(sessionId, seq), lastSeq: this.#store.lastSeq(sessionId), reservedSeq: this.#store.reservedSeq(sessionId) };
    });
  }

  async interrupt(imageId: string | undefined, agentId: string | undefined): Promise<{ image: records.Image; running: boolean } | undefined> {
    return this.#burst("interrupt", () => {
      const image = imageId === undefined ? this.#store.imageOfAgent(agentId ?? "") : this.#store.image(imageId);
      return image && { image, running: this.#interrupt(image.sessionId, false) };
    });
  }

  async rewind(sessionId: string, n: number, body: string | ArrayBuffer | null, batch: Batch, connection: string): Promise<void> {
    this.#burst("rewind", () => {
      this.#interrupt(sessionId);
      this.#store.rewind(sessionId, n, body);
      this.#broadcast(batch, connection);
    });
  }

  async ledger(limit: number): Promise<records.LedgerEntry[]> {
    return this.#burst("ledger", () => this.#store.entries(limit));
  }

  /** Forgets entries that somebody has fetched. */
  async dropEntries(ids: string[]): Promise<void> {
    this.#burst("dropEntries", () => this.#store.dropEntries(new Set(ids)));
  }

  // --- Workers that listen

  async fetch(request: Request): Promise<Response> {
    return this.#burst("listen", () => {
      const connection = new URL(request.url).searchParams.get("connection") ?? "";
      const pair = new WebSocketPair();
      this.ctx.acceptWebSocket(pair[1], [connection]);
      pair[1].serializeAttachment({ connection, sessions: [] } satisfies Listener);
      return new Response(null, { status: 101, webSocket: pair[0] });
    });
  }

  async webSocketMessage(socket: WebSocket, text: string): Promise<void> {
    this.#burst("message", () => {
      const up = JSON.parse(text) as records.Up;
      const listener = socket.deserializeAttachment() as Listener;
      if (up.kind === "post") this.#post(up.batch, listener.connection, up.to);
      else if (up.kind === "follow") socket.serializeAttachment({ connection: listener.connection } satisfies Listener);
      else if (up.kind === "subscribe") this.#subscribe(socket, listener, up.sessionId, up.after);
      else if (listener.sessions !== undefined) {
        const sessions = listener.sessions.filter((sessionId) => sessionId !== up.sessionId);
        socket.serializeAttachment({ connection: listener.connection, sessions } satisfies Listener);
      }
    });
  }

  /** A Worker has gone. What it ran is looked after at once. */
  async webSocketClose(socket: WebSocket): Promise<void> {
    const { connection } = socket.deserializeAttachment() as Listener;
    this.#burst("gone", () => {
      if (this.#store.unfinished().some((row) => row.state === "running" && row.runner === connection)) this.#watch(Date.now());
    });
  }

  async alarm(): Promise<void> {
    const at = Date.now();
    const written = this.#store.written;
    this.#alarmAt = Number.POSITIVE_INFINITY;
    let next = Number.POSITIVE_INFINITY;
    for (const row of this.#store.unfinished()) next = Math.min(next, await this.#look(row, at));
    if (this.env.NODE_URL) next = Math.min(next, await this.#push(at));
    if (Number.isFinite(next)) this.#watch(next);
    this.#log("alarm", at, this.#store.written - written);
  }

  /** Sends the entries of the ledger to a server; returns when to try again. What was not acknowledged is sent again. */
  async #push(at: number): Promise<number> {
    const entries = this.#store.entries(this.#failedPushes === 0 ? records.ENTRIES_MAX : 1);
    if (entries.length === 0) return Number.POSITIVE_INFINITY;
    if (await push(this.env, this.#store.container()?.object ?? "", entries)) {
      this.#failedPushes = 0;
      this.#store.dropEntries(new Set(entries.map(({ id }) => id)));
      return this.#store.hasEntries() ? at : Number.POSITIVE_INFINITY;
    }
    const wait = Math.min(leaseMs(this.env) * 2 ** this.#failedPushes, PUSH_WAIT_MAX_MS);
    this.#failedPushes += 1;
    return Date.now() + wait;
  }

  // --- turns that nobody runs

  /** Looks after one turn; returns when to look again. */
  async #look(row: TurnRow, at: number): Promise<number> {
    if (row.state === "parked") return this.#lookAtWaits(row, at);
    const isAlive = row.runner !== "" && this.ctx.getWebSockets(row.runner).length > 0;
    const lease = leaseMs(this.env);
    // A Worker that is alive ends its turn by its own deadline.
    if (isAlive) return at + lease;
    if (row.attempt >= RERUNS_MAX && row.runner !== "") {
      await this.#endLost(row, at);
      return Number.POSITIVE_INFINITY;
    }
    // A turn without a Worker was handed out before: the queue hands it out once more, and only one Worker can take it.
    const attempt = row.runner === "" && row.attempt > 0 ? row.attempt : row.attempt + 1;
    if (attempt !== row.attempt) this.#store.orphan(row);
    const object = this.#store.container()?.object ?? "";
    await this.env.TURNS.send({ object, sessionId: row.session_id, n: row.n, turnId: row.turn_id, attempt });
    return at + lease;
  }

  /** Ends the waits that nobody has answered in time. */
  async #lookAtWaits(row: TurnRow, at: number): Promise<number> {
    const waits = JSON.parse(row.waits) as records.Wait[];
    const next = Math.min(...waits.filter((wait) => wait.answer === undefined).map((wait) => wait.expiresAt));
    if (next > at) return next;
    for (const wait of waits) if (wait.expiresAt <= at) wait.answer ??= { decision: "expired" };
    this.#store.setWaits(row, waits);
    if (waits.some((wait) => wait.answer === undefined)) return at + leaseMs(this.env);
    this.#store.run(row, "", row.last_seq);
    this.#store.orphan(row);
    return at;
  }

  /** Ends a turn without a Worker. */
  async #endLost(row: TurnRow, at: number): Promise<void> {
    const image = this.#store.imageOfSession(row.session_id);
    if (image === undefined) return;
    const { fold, batch } = await lostTurn(row, image, at);
    if (this.#store.fold(fold)) this.#broadcast(batch, "");
  }

  #resume(row: TurnRow, image: records.Image, waits: records.Wait[], runner: string): records.Accepted {
    this.#store.setWaits(row, waits);
    const reserved = this.#store.run(row, runner, row.last_seq);
    this.#watch();
    return this.#toRun({ ...row, waits: JSON.stringify(waits), runner, state: "running" }, image, runner, false, { firstSeq: row.last_seq, reserved });
  }

  #toRun(row: TurnRow, image: records.Image, runner: string, agentIsNew: boolean, seqs: Pick<records.Accepted, "firstSeq" | "reserved" | "lost">): records.Accepted {
    const history = this.#store.history(row.session_id, row.n);
    return acceptedOf(row, image, agentIsNew, seqs, history, this.#listeners(row.session_id, runner).length);
  }

  #repeated(image: records.Image, row: TurnRow): records.AcceptReply {
    const messageId = (JSON.parse(row.user) as { id: string }).id;
    const reply = { image, agentId: image.agentId ?? "", agentIsNew: false, turnId: row.turn_id, messageId, seq: row.first_seq };
    return { ...reply, queued: row.state === "queued", repeated: true };
  }

  #register(image: records.Image, agentId: string, connection: string): records.Image {
    this.#store.setAgent(image.imageId, agentId);
    this.#broadcast(registeredBatch(image, agentId), connection);
    return { ...image, agentId };
  }

  /** Tells the Worker that runs a turn of the session to end it; those that are queued behind it are taken back, if wanted. */
  #interrupt(sessionId: string, dropsQueued = true): boolean {
    const open = this.#store.open(sessionId);
    const running = open.find((row) => row.state === "running");
    if (running !== undefined && dropsQueued && open.some((row) => row.n > running.n)) this.#store.rewind(sessionId, running.n, null);
    if (running !== undefined) this.#send(this.ctx.getWebSockets(running.runner), { kind: "interrupt", turnId: running.turn_id });
    return running !== undefined;
  }

  // --- telling

  #subscribe(socket: WebSocket, listener: Listener, sessionId: string, after: number | null): void {
    const sessions = listener.sessions === undefined ? undefined : [...new Set([...listener.sessions, sessionId])];
    const named = sessions !== undefined && sessions.length <= SESSIONS_NAMED_MAX;
    socket.serializeAttachment({ connection: listener.connection, ...(named ? { sessions } : {}) } satisfies Listener);
    const running = this.#store.open(sessionId).find((row) => row.state === "running");
    if (running === undefined || running.runner === listener.connection) return;
    this.#send(this.ctx.getWebSockets(running.runner), { kind: "listen", sessionId, connection: listener.connection, after });
  }

  #post(batch: Batch, from: string, to: string | null): void {
    if (to !== null) this.#send(this.ctx.getWebSockets(to), { kind: "batch", batch });
    else this.#send(this.#listeners(batch.scope.sessionId ?? "", from), { kind: "batch", batch });
  }

  /** To everybody who listens to the container, but the connection that it comes from. */
  #broadcast(batch: Batch, from: string): void {
    const others = this.ctx.getWebSockets().filter((socket) => (socket.deserializeAttachment() as Listener).connection !== from);
    this.#send(others, { kind: "batch", batch });
  }

  #listeners(sessionId: string, but: string): WebSocket[] {
    return this.ctx.getWebSockets().filter((socket) => {
      const { connection, sessions } = socket.deserializeAttachment() as Listener;
      return connection !== but && (sessions === undefined || sessions.includes(sessionId));
    });
  }

  #send(sockets: readonly WebSocket[], down: records.Down): void {
    const text = JSON.stringify(down);
    for (const socket of sockets) {
      try {
        socket.send(text);
      } catch {
        // It is closing: its Worker is gone, and `webSocketClose` follows.
      }
    }
  }

  // --- the alarm, and the log of being awake

  #watch(at: number = Date.now() + leaseMs(this.env)): void {
    // An alarm that comes earlier looks at everything, and sets the next one.
    if (this.#alarmAt <= at) return;
    this.#alarmAt = at;
    this.#store.written += 1;
    this.ctx.waitUntil(this.ctx.storage.setAlarm(at));
  }

  #unwatch(): void {
    this.#alarmAt = Number.POSITIVE_INFINITY;
    this.#store.written += 1;
    this.ctx.waitUntil(this.ctx.storage.deleteAlarm());
  }

  #burst<T>(what: string, run: () => T): T {
    const at = Date.now();
    const written = this.#store.written;
    try {
      return run();
    } finally {
      this.#log(what, at, this.#store.written - written);
    }
  }

  #log(what: string, at: number, rows: number): void {
    if (this.env.LOG_OBJECTS !== "1") return;
    console.log(JSON.stringify({ log: "object", what, at, ms: Date.now() - at, rows, bytes: this.ctx.storage.sql.databaseSize }));
  }
}

export type Refused = "image" | "agent" | "session" | "full" | "busy";

export type AnswerReply = { turnId: string; run?: records.Accepted } | { refused: "none" | "other" | "answered" | "expired" };
