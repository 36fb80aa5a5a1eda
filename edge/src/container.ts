/**
 * Container — the object of one container: its truth, asked in bursts.
 *
 * A turn costs two requests here: it is accepted, and its end is stored. Between them the object has nothing to do, no timer and
 * no open call, so it is not awake while a model is waited for. Workers listen on sockets that survive its sleep; the socket
 * of a Worker that runs a turn is also the sign that it is alive. The alarm looks for turns whose Worker is gone: such a turn
 * is run once more by a new Worker, and after that it ends as failed.
 */

import { DurableObject } from "cloudflare:workers";
import { Alarm } from "./alarm.ts";
import { type Env, leaseMs } from "./env.ts";
import { sendEntries } from "./ledger.ts";
import { containerBatch, deletedBatch, registeredBatch, stoppedBatch } from "./batches.ts";
import type { Interrupted } from "./commands.ts";
import type { Batch } from "./events.ts";
import { Listeners } from "./listeners.ts";
import { LostTurns } from "./lost_turns.ts";
import * as records from "./records.ts";
import { INBOX_MAX, Store, acceptedOf, repeatedOf, type TurnRow } from "./store.ts";

export class Container extends DurableObject<Env> {
  #store: Store;
  #listeners: Listeners;
  #lost: LostTurns;
  #alarm: Alarm;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#store = new Store(ctx.storage.sql);
    this.#listeners = new Listeners(ctx);
    this.#lost = new LostTurns(env, this.#store, this.#listeners);
    this.#alarm = new Alarm(ctx.storage, env, () => (this.#store.rows.written += 1));
    this.#log("woke", Date.now(), this.#store.rows);
  }

  // --- requests of Workers: each is one burst

  async create(name: string, objectName: string, connection: string): Promise<{ isNew: boolean; createdAt: number }> {
    return this.#burst("create", () => {
      const found = this.#store.container();
      if (found !== undefined) return { isNew: false, createdAt: found.createdAt };
      const at = Date.now();
      this.#store.addContainer(name, objectName, at);
      this.#listeners.broadcast(containerBatch(name, at), connection);
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

  /** Without their tools: those of many images are too much for a reply. */
  async images(): Promise<records.Image[]> {
    return this.#burst("images", () => this.#store.images().map((image) => ({ ...image, definition: { ...image.definition, tools: [] } })));
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
      this.#listeners.broadcast(batch, connection);
    });
  }

  async deleteImage(imageId: string, connection: string): Promise<records.Image | undefined> {
    return this.#burst("deleteImage", () => {
      const image = this.#store.image(imageId);
      if (image === undefined) return undefined;
      this.#interrupt(image.sessionId, false);
      this.#lost.drop(image.sessionId, 0);
      this.#store.deleteImage(image);
      this.#listeners.broadcast(deletedBatch(image), connection);
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

  /** Stops the agents of images: their turns end as interrupted, also those that wait. One that waits for somebody is ended by the Worker that asks. */
  async stopAgents(imageIds: string[] | null, connection: string): Promise<{ image: records.Image; run?: records.Accepted }[]> {
    return this.#burst("stopAgents", () => {
      const stopped = this.#store.images().filter((image) => image.agentId !== undefined && (imageIds === null || imageIds.includes(image.imageId)));
      return stopped.map((image) => {
        this.#store.setAgent(image.imageId, null);
        this.#store.stopQueued(image.sessionId);
        const parked = this.#store.open(image.sessionId).find((row) => row.state === "parked");
        if (parked === undefined) this.#interrupt(image.sessionId, false);
        this.#listeners.broadcast(stoppedBatch(image), connection);
        return { image, ...(parked === undefined ? {} : { run: this.#supersede(parked, image, connection) }) };
      });
    });
  }

  async accept(request: records.AcceptRequest): Promise<records.AcceptReply | { refused: records.Refused }> {
    return this.#burst("accept", () => {
      const { imageId, agentId, sessionId } = request;
      let image = imageId !== undefined ? this.#store.image(imageId) : agentId !== undefined ? this.#store.imageOfAgent(agentId) : this.#store.imageOfSession(sessionId ?? "");
      if (image === undefined) return { refused: imageId !== undefined ? "image" : agentId !== undefined ? "agent" : "session" };
      if (sessionId !== undefined && sessionId !== image.sessionId) return { refused: "session" };
      const again = request.clientKey === undefined ? undefined : this.#store.sentBefore(image.sessionId, request.clientKey);
      if (again !== undefined) return repeatedOf(image, again);
      const open = this.#store.open(image.sessionId);
      const isBusy = open.some((row) => (row.state === "parked" ? request.onParked === "reject" : request.onBusy === "reject"));
      if (isBusy) return { refused: "busy" };
      if (open.length > INBOX_MAX) return { refused: "full" };
      const agentIsNew = image.agentId === undefined;
      if (agentIsNew) image = this.#register(image, request.newAgentId, request.runner);
      const at = Date.now();
      // Those that wait before it are answered all the same: they were acknowledged.
      if (request.onBusy === "interrupt") this.#interrupt(image.sessionId, false);
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
      return { ...reply, queued: true, run: this.#supersede(first, image, request.runner) };
    });
  }

  async fold(request: records.FoldRequest): Promise<records.FoldReply> {
    return this.#burst("fold", () => {
      if (!this.#store.fold(request) && !this.#store.hasFolded(request)) return this.#unfolded(request);
      if (request.state === "running") return { stored: true };
      const image = this.#store.imageOfSession(request.sessionId);
      const [first] = this.#store.open(request.sessionId);
      if (request.state === "parked") this.#watchWaits(request.waits);
      // Begun by the same request, whose reply was lost.
      if (image !== undefined && first?.state === "running" && first.runner === request.runner) {
        return { stored: true, next: this.#toRun(first, image, request.runner, false, { firstSeq: first.first_seq, reserved: first.last_seq }) };
      }
      if (image === undefined || first?.state !== "queued") {
        // The alarm that was set for the turn sends its entries, those of several turns at once.
        if (this.#store.unfinished().length === 0 && !this.env.NODE_URL) this.ctx.waitUntil(this.#alarm.clear());
        return { stored: true };
      }
      const reserved = this.#store.run(first, request.runner, request.lastSeq);
      return { stored: true, next: this.#toRun({ ...first, runner: request.runner }, image, request.runner, false, { firstSeq: request.lastSeq, reserved }) };
    });
  }

  #unfolded({ sessionId, n, turnId, entries }: records.FoldRequest): records.FoldReply {
    // The provider has charged for it, whoever has the turn.
    this.#store.entries.keep(entries);
    if (entries.length > 0 && this.env.NODE_URL) this.#watch();
    return { stored: false, isGone: this.#store.turn(sessionId, n)?.turn_id !== turnId };
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

  async answer(waitId: string, sessionId: string, given: records.WaitAnswer, fingerprint: string, runner: string): Promise<records.AnswerReply> {
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
    return this.#burst("history", () => this.#store.all(sessionId, maxBytes));
  }

  async after(sessionId: string, seq: number): Promise<{ image?: records.Image; turns: records.StoredTurn[]; lastSeq: number; reservedSeq: number }> {
    return this.#burst("after", () => {
      const image = this.#store.imageOfSession(sessionId);
      return { ...(image ? { image } : {}), turns: this.#store.after(sessionId, seq), lastSeq: this.#store.lastSeq(sessionId), reservedSeq: this.#store.reservedSeq(sessionId) };
    });
  }

  /** Stops the turn of an image or an agent. One that waits for somebody is given to the Worker that asks, which ends it. */
  async interrupt({ imageId, agentId, sessionId, turnId }: Interrupted, runner: string): Promise<{ image: records.Image; running: boolean; isQueued?: boolean; run?: records.Accepted } | undefined> {
    return this.#burst("interrupt", () => {
      const image = imageId !== undefined ? this.#store.image(imageId) : agentId !== undefined ? this.#store.imageOfAgent(agentId) : this.#store.imageOfSession(sessionId ?? "");
      if (image === undefined || (sessionId !== undefined && sessionId !== image.sessionId)) return undefined;
      const open = this.#store.open(image.sessionId).filter((row) => turnId === undefined || row.turn_id === turnId);
      const parked = open.find((row) => row.state === "parked");
      if (parked !== undefined) return { image, running: false, run: this.#supersede(parked, image, runner) };
      const isRunning = open.some((row) => row.state === "running");
      if (turnId !== undefined && !isRunning) return { image, running: false, isQueued: open.length > 0 };
      return { image, running: this.#interrupt(image.sessionId, false) };
    });
  }

  async rewind(sessionId: string, n: number, body: string | ArrayBuffer | null, batch: Batch, connection: string): Promise<void> {
    this.#burst("rewind", () => {
      this.#lost.drop(sessionId, n);
      this.#interrupt(sessionId);
      this.#store.rewind(sessionId, n, body);
      this.#listeners.broadcast(batch, connection);
    });
  }

  async ledger(limit: number): Promise<records.LedgerEntry[]> {
    return this.#burst("ledger", () => this.#store.entries.kept(limit));
  }

  /** Forgets entries that somebody has fetched. */
  async dropEntries(ids: string[]): Promise<void> {
    this.#burst("dropEntries", () => this.#store.entries.drop(new Set(ids)));
  }

  // --- Workers that listen

  async fetch(request: Request): Promise<Response> {
    return this.#burst("listen", () => {
      const connection = new URL(request.url).searchParams.get("connection") ?? "";
      return new Response(null, { status: 101, webSocket: this.#listeners.open(connection) });
    });
  }

  async webSocketMessage(socket: WebSocket, text: string): Promise<void> {
    this.#burst("message", () => {
      const up = JSON.parse(text) as records.Up;
      if (up.kind === "post") this.#listeners.post(up.batch, this.#listeners.connectionOf(socket), up.to, up.but);
      else if (up.kind === "follow") this.#listeners.follow(socket);
      else if (up.kind === "subscribe") this.#subscribe(socket, up.sessionId, up.after);
      else this.#listeners.remove(socket, up.sessionId);
    });
  }

  /** A Worker has gone. What it ran is looked after at once. */
  async webSocketClose(socket: WebSocket): Promise<void> {
    const connection = this.#listeners.connectionOf(socket);
    // Without an answer the Worker would wait for one: a queue hands out nothing meanwhile.
    this.#listeners.close(socket);
    this.#burst("gone", () => {
      if (this.#store.unfinished().some((row) => row.state === "running" && row.runner === connection)) this.#watch(Date.now());
    });
  }

  async alarm(): Promise<void> {
    const at = Date.now();
    const { written, read } = this.#store.rows;
    this.#alarm.rang();
    let next = Number.POSITIVE_INFINITY;
    for (const row of this.#store.unfinished()) next = Math.min(next, await this.#lost.look(row, at));
    if (this.env.NODE_URL) next = Math.min(next, await sendEntries(this.env, this.#store.container()?.object ?? "", this.#store.entries, at));
    if (Number.isFinite(next)) this.#watch(next);
    this.#log("alarm", at, { written, read });
  }

  // --- turns that are stopped, or go on

  /** The user goes on: what waits is not waited for any more. */
  #supersede(row: TurnRow, image: records.Image, runner: string): records.Accepted {
    const waits = (JSON.parse(row.waits) as records.Wait[]).map((wait) => ({ ...wait, answer: wait.answer ?? { decision: "superseded" as const } }));
    return this.#resume(row, image, waits, runner);
  }

  #resume(row: TurnRow, image: records.Image, waits: records.Wait[], runner: string): records.Accepted {
    this.#store.setWaits(row, waits);
    const reserved = this.#store.run(row, runner, row.last_seq);
    this.#watch();
    return this.#toRun({ ...row, waits: JSON.stringify(waits), runner, state: "running" }, image, runner, false, { firstSeq: row.last_seq, reserved });
  }

  #toRun(row: TurnRow, image: records.Image, runner: string, agentIsNew: boolean, seqs: Pick<records.Accepted, "firstSeq" | "reserved" | "lost">): records.Accepted {
    const history = this.#store.history(row.session_id, row.n);
    return acceptedOf(row, image, agentIsNew, seqs, history, this.#listeners.count(row.session_id, runner));
  }

  #register(image: records.Image, agentId: string, connection: string): records.Image {
    this.#store.setAgent(image.imageId, agentId);
    this.#listeners.broadcast(registeredBatch(image, agentId), connection);
    return { ...image, agentId };
  }

  /** Ends the running turn of the session, by the Worker that runs it; those that are queued behind it are taken back, if wanted. */
  #interrupt(sessionId: string, dropsQueued = true): boolean {
    const open = this.#store.open(sessionId);
    const running = open.find((row) => row.state === "running");
    if (running !== undefined && dropsQueued && open.some((row) => row.n > running.n)) this.#store.rewind(sessionId, running.n, null);
    if (running !== undefined) this.#stop(running);
    return running !== undefined;
  }

  #stop(row: TurnRow): void {
    if (this.#listeners.isAlive(row.runner)) this.#listeners.tell(row.runner, { kind: "interrupt", turnId: row.turn_id });
    else this.ctx.waitUntil(this.#stopLost(row));
  }

  async #stopLost(row: TurnRow): Promise<void> {
    const next = await this.#lost.end(row, Date.now(), "interrupted");
    if (next !== undefined) return Number.isFinite(next) ? this.#watch(next) : undefined;
    // A Worker has taken it just now. If it has ended, the one that runs since then goes on.
    const taken = this.#store.turn(row.session_id, row.n);
    if (taken?.turn_id === row.turn_id && taken.state === "running") this.#stop(taken);
  }

  #subscribe(socket: WebSocket, sessionId: string, after: number | null): void {
    this.#listeners.add(socket, sessionId);
    const connection = this.#listeners.connectionOf(socket);
    // A turn has ended since the Worker read what is stored: it has to read once more, before it hears the running one.
    if (after !== null && this.#store.hasAfter(sessionId, after)) return this.#listeners.tell(connection, { kind: "missed", sessionId });
    const running = this.#store.open(sessionId).find((row) => row.state === "running");
    if (running === undefined || running.runner === connection) return;
    this.#listeners.tell(running.runner, { kind: "listen", sessionId, connection, after });
  }

  // --- the alarm, and the log of being awake

  #watch(at?: number): void {
    this.ctx.waitUntil(this.#alarm.set(at));
  }

  #watchWaits(waits: readonly records.Wait[]): void {
    const expiry = Math.min(...waits.map((wait) => wait.expiresAt));
    // An object that has slept does not know its alarm, and must not put off what that is for.
    const isSoon = Boolean(this.env.NODE_URL) || this.#store.unfinished().some((row) => row.state === "running");
    this.#watch(isSoon ? Math.min(expiry, Date.now() + leaseMs(this.env)) : expiry);
  }

  #burst<T>(what: string, run: () => T): T {
    const at = Date.now();
    const { written, read } = this.#store.rows;
    try {
      return run();
    } finally {
      this.#log(what, at, { written, read });
    }
  }

  /** Logs how long the object was awake since a time, and the rows that it has written and read meanwhile. */
  #log(what: string, at: number, before: { written: number; read: number }): void {
    if (this.env.LOG_OBJECTS !== "1") return;
    const { written, read } = this.#store.rows;
    const rows = { rows: written - before.written, read: read - before.read };
    console.log(JSON.stringify({ log: "object", what, at, ms: Date.now() - at, ...rows, bytes: this.ctx.storage.sql.databaseSize }));
  }
}
