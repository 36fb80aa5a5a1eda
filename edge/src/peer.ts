/** Peer — what a command needs of the connection that it came on: the objects that it reaches, and who is told what. */

import type { Principal } from "./access.ts";
import { registeredBatch, scopeOf } from "./batches.ts";
import type { Env } from "./env.ts";
import type { Batch, Told } from "./events.ts";
import { newId, placeIn, type Place } from "./ids.ts";
import { Link } from "./link.ts";
import type { AcceptReply, Accepted, Down, Image } from "./records.ts";
import { Run } from "./runner.ts";
import { visible } from "./errors.ts";

/** Containers that one connection may work with at a time. */
const LINKS_MAX = 100;

export class Peer {
  readonly env: Env;
  readonly id: string;
  readonly principal: Principal;
  /** The turns that run here, by session. */
  readonly runs: Map<string, Run> = new Map();
  /** Whether all sessions of the containers are heard, without a subscription. */
  followsAll = false;
  #links = new Map<Place, Promise<Link>>();
  #sessions = new Set<string>();
  #followed = new Set<Place>();
  #heard = new Map<string, number>();
  #tell: (batch: Batch) => void;
  #waitUntil: (promise: Promise<unknown>) => void;
  #after: (() => void)[] = [];
  #running = new Set<Promise<void>>();

  constructor(env: Env, id: string, principal: Principal, tell: (batch: Batch) => void, waitUntil: (promise: Promise<unknown>) => void) {
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
    if (found !== undefined && (await found).isOpen) return await found;
    if (this.#links.size >= LINKS_MAX) await this.#drop();
    const opened = Link.open(this.env, this.principal.object(place), this.id, (down) => this.#hear(place, down));
    this.#links.set(place, opened);
    const link = await opened;
    if (this.followsAll) link.send({ kind: "follow" });
    return link;
  }

  /** The link to the container that holds the thing of this id; undefined if it cannot be one of the principal's. */
  async linkTo(id: string): Promise<Link | undefined> {
    const place = placeIn(id);
    return place === undefined || !this.principal.reaches(place) ? undefined : await this.link(place);
  }

  async #drop(): Promise<void> {
    const busy = new Set([...this.runs.keys()].map((sessionId) => placeIn(sessionId)));
    const [place, link] = [...this.#links].find(([candidate]) => !busy.has(candidate)) ?? [];
    if (place === undefined || link === undefined) return;
    this.#links.delete(place);
    (await link).close();
  }

  // --- hearing

  /** Hears a session from now on. */
  listen(link: Link, sessionId: string, after: number | null = null): void {
    if (this.#sessions.has(sessionId) && after === null) return;
    this.#sessions.add(sessionId);
    link.send({ kind: "subscribe", sessionId, after });
  }

  subscribe(sessionId: string): void {
    this.#sessions.add(sessionId);
  }

  /** Hears all sessions of a container. */
  async follow(place: Place): Promise<void> {
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
    if (last > 0) this.#heard.set(sessionId, last);
    if (events.length > 0) this.#tell({ scope: batch.scope, events });
  }

  /** Tells the client an event that has no place in the order of a session. */
  tellOf(image: Image, event: Told): void {
    this.deliver({ scope: scopeOf(image), events: [{ ...event, seq: 0 }] });
  }

  #hear(place: Place, down: Down): void {
    if (down.kind === "batch") this.deliver(down.batch);
    else if (down.kind === "listen") this.runs.get(down.sessionId)?.feed.listen(down.connection, down.after);
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
        for (const link of this.#links.values()) (await link).close();
      })(),
    );
  }
}
