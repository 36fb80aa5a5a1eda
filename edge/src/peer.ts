/** Peer — what a command needs of the connection that it came on: the objects that it reaches, and who is told what. */

import type { Principal } from "./access.ts";
import { registeredBatch, scopeOf } from "./batches.ts";
import type { Env } from "./env.ts";
import type { Batch, Told } from "./events.ts";
import { newId, placeIn, type Place } from "./ids.ts";
import { Link } from "./link.ts";
import type { AcceptReply, Accepted, Down, Image } from "./records.ts";
import { Run } from "./runner.ts";
import { replay } from "./replay.ts";
import { EdgeError, visible } from "./errors.ts";

/** Containers that one connection may work with at a time. */
const LINKS_MAX = 100;
/** Sessions that one connection can hear, and containers that it can follow, as at a server: more are passed over in silence. */
const HEARD_MAX = 10_000;

export class Peer {
  readonly env: Env;
  readonly id: string;
  readonly principal: Principal;
  /** The turns that run here, by session. */
  readonly runs: Map<string, Run> = new Map();
  /** Whether all sessions of the containers are heard, without a subscription. */
  followsAll = false;
  /** The containers that this connection has worked with. */
  readonly joined: Set<string> = new Set();
  #links = new Map<Place, Promise<Link>>();
  #sessions = new Set<string>();
  #followed = new Set<Place>();
  #heard = new Map<string, number>();
  #tell: (batch: Batch) => void;
  #waitUntil: (promise: Promise<unknown>) => void;
  #after: (() => void)[] = [];
  #running = new Set<Promise<void>>();
  #lose: () => void;

  /** `lose` closes the socket of the client, who comes again: an object cannot be reached. */
  constructor(env: Env, id: string, principal: Principal, tell: (batch: Batch) => void, waitUntil: (promise: Promise<unknown>) => void, lose: () => void) {
    this.#lose = lose;
    this.env = env;
    this.id = id;
    this.principal = principal;
    this.#tell = tell;
    this.#waitUntil = waitUntil;
  }

  // --- objects

  /** The link to the object at a place. */
  async link(place: Place): Promise<Link> {
    const found = this.#links.get(place);
    if (found !== undefined && !(await found.catch(() => undefined))?.isDone) return await found;
    if (this.#links.size >= LINKS_MAX) await this.#drop();
    const hearing = { hear: (down: Down) => this.#hear(place, down), reopened: () => this.#waitUntil(this.#hearAgain(place)), lost: () => this.#lose() };
    const opened = Link.open(this.env, this.principal.object(place), this.id, hearing);
    this.#links.set(place, opened);
    opened.catch(() => this.#links.delete(place));
    const link = await opened;
    if (this.followsAll) link.send({ kind: "follow" });
    return link;
  }

  /** Tells an object that has restarted what is heard and run here, and catches up with what was told meanwhile. */
  async #hearAgain(place: Place): Promise<void> {
    const link = await this.link(place);
    if (this.followsAll || this.#followed.has(place)) link.send({ kind: "follow" });
    for (const run of this.runs.values()) if (placeIn(run.accepted.image.sessionId) === place) run.feed.repeat();
    const sessions = new Set([...this.#sessions, ...this.#heard.keys()].filter((sessionId) => placeIn(sessionId) === place));
    for (const sessionId of sessions) {
      if (this.#heard.has(sessionId)) await replay(this, sessionId, this.#heard.get(sessionId) ?? null);
      else link.send({ kind: "subscribe", sessionId, after: null });
    }
  }

  /** The link to the container that holds the thing of this id; undefined if it cannot be one of the principal's. */
  async linkTo(id: string): Promise<Link | undefined> {
    const place = placeIn(id);
    return place === undefined || !this.principal.reaches(place) ? undefined : await this.link(place);
  }

  /** Makes room for another link: of a container of which nothing is heard, or events would be lost in silence. */
  async #drop(): Promise<void> {
    const busy = new Set([...this.runs.keys(), ...this.#sessions].map((sessionId) => placeIn(sessionId)));
    const [place, link] = [...this.#links].find(([candidate]) => !busy.has(candidate) && !this.#followed.has(candidate)) ?? [];
    if (place === undefined || link === undefined) throw new EdgeError("server_busy", `A connection hears at most ${LINKS_MAX} containers at a time: open another one, or unsubscribe`);
    this.#links.delete(place);
    (await link.catch(() => undefined))?.close();
  }

  // --- hearing

  /** Hears a session from now on. */
  listen(link: Link, sessionId: string, after: number | null = null): void {
    if (this.#sessions.has(sessionId) && after === null) return;
    if (this.subscribe(sessionId)) link.send({ kind: "subscribe", sessionId, after });
  }

  /** Whether the session is heard from now on. */
  subscribe(sessionId: string): boolean {
    const hasRoom = this.#sessions.has(sessionId) || this.#sessions.size < HEARD_MAX;
    if (hasRoom) this.#sessions.add(sessionId);
    return hasRoom;
  }

  /** Hears all sessions of a container. */
  async follow(place: Place): Promise<void> {
    if (this.#followed.size >= HEARD_MAX && !this.#followed.has(place)) return;
    this.#followed.add(place);
    (await this.link(place)).send({ kind: "follow" });
  }

  /** Hears everything of every container that is used from now on. */
  async followAll(place: Place): Promise<void> {
    this.followsAll = true;
    await this.link(place);
  }

  async unlisten(sessionId: string): Promise<void> {
    if (!this.#sessions.delete(sessionId)) return;
    const place = placeIn(sessionId);
    const link = place === undefined ? undefined : this.#links.get(place);
    (await link)?.send({ kind: "unsubscribe", sessionId });
  }

  /** From this number on events of the session are new to the client. */
  heardUpTo(sessionId: string, seq: number): void {
    // The one that was silent longest makes room: sessions of a followed container are heard without a subscription.
    if (!this.#heard.delete(sessionId) && this.#heard.size >= HEARD_MAX) this.#heard.delete(this.#heard.keys().next().value ?? "");
    this.#heard.set(sessionId, seq);
  }

  /** Tells the client events, as far as it wants them and has not had them. */
  deliver(batch: Batch): void {
    const { sessionId } = batch.scope;
    if (sessionId === undefined) return this.#tell(batch);
    if (!this.followsAll && !this.#sessions.has(sessionId) && !this.#followed.has(placeIn(sessionId) ?? "")) return;
    const heard = this.#heard.get(sessionId) ?? 0;
    const events = batch.events.filter((event) => event.seq === 0 || event.seq > heard);
    const last = events.at(-1)?.seq ?? 0;
    if (last > 0) this.heardUpTo(sessionId, last);
    if (events.length > 0) this.#tell({ scope: batch.scope, events });
  }

  /** Tells the client an event that has no place in the order of a session. */
  tellOf(image: Image, event: Told): void {
    this.deliver({ scope: scopeOf(image), events: [{ ...event, seq: 0 }] });
  }

  #hear(place: Place, down: Down): void {
    if (down.kind === "batch") this.deliver(down.batch);
    else if (down.kind === "listen") this.runs.get(down.sessionId)?.listen(down.connection, down.after);
    else if (down.kind === "missed") this.#waitUntil(replay(this, down.sessionId, this.#heard.get(down.sessionId) ?? 0));
    else {
      const run = [...this.runs.values()].find((other) => other.accepted.turnId === down.turnId && placeIn(down.turnId) === place);
      run?.announceInterrupt();
      run?.stop();
    }
  }

  // --- turns

  newId(kind: "img" | "sess" | "agent" | "turn", place: Place): string {
    return newId(kind, place);
  }

  /** Tells of an accepted message; its turn begins when the reply has left. */
  begin(link: Link, reply: AcceptReply, queued: Told[]): void {
    if (reply.agentIsNew) this.deliver(registeredBatch(reply.image, reply.agentId));
    for (const event of queued) this.tellOf(reply.image, event);
    const { run } = reply;
    if (run === undefined) return;
    const first = this.#run(link, run);
    first.begin();
    this.after(() => this.#start(link, first));
  }

  /** Goes on with a turn that has waited. */
  resume(link: Link, accepted: Accepted): void {
    const run = this.#run(link, accepted);
    this.after(() => {
      run.begin();
      this.#start(link, run);
    });
  }

  after(run: () => void): void {
    this.#after.push(run);
  }

  /** The reply has left: what was to happen after it happens. */
  replied(): void {
    for (const run of this.#after.splice(0)) run();
  }

  #run(link: Link, accepted: Accepted): Run {
    const run = new Run(this.env, link, this.principal.tenant, this.id, accepted, (batch) => this.deliver(batch));
    this.runs.set(accepted.image.sessionId, run);
    return run;
  }

  #start(link: Link, first: Run): void {
    const running = this.#runAll(link, first).finally(() => this.#running.delete(running));
    this.#running.add(running);
    this.#waitUntil(running);
  }

  async #runAll(link: Link, first: Run): Promise<void> {
    const { sessionId } = first.accepted.image;
    let run = first;
    try {
      for (;;) {
        const next = await run.run();
        if (next === undefined) return;
        run = this.#run(link, next);
        run.begin(true);
      }
    } catch (error) {
      visible(error);
      this.#lose();
    } finally {
      if (this.runs.get(sessionId) === run) this.runs.delete(sessionId);
    }
  }

  /** The client has gone. Turns that run go on; the links close when the last has ended. */
  close(): void {
    this.#tell = () => {};
    this.#waitUntil(
      (async () => {
        while (this.#running.size > 0) await Promise.allSettled(this.#running);
        for (const link of this.#links.values()) (await link.catch(() => undefined))?.close();
      })(),
    );
  }
}
