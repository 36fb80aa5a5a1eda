/**
 * Runner — runs turns in a Worker: model, tools, model … It waits here, where waiting costs nothing.
 *
 * The end of a turn is told when it is stored, and not before; pieces of an answer are told at once. A turn that another Worker
 * has taken over in the meantime is dropped in silence: that one tells its end. One whose end cannot be stored fails here, and
 * its socket to the object must close then: so the object sees that nobody runs it.
 */

import { type Body, BODY_MAX_BYTES, messagesOf, pack, sizeOf, unpack } from "./body.ts";
import { opening, resumed, scopeOf } from "./batches.ts";
import { type Env, maxTokens, modelOf, silenceMs, waitMs } from "./env.ts";
import { EdgeError, ProviderError, visible } from "./errors.ts";
import { type Batch, type Numbered, packEvents, tell, type Told, unpackEvents } from "./events.ts";
import { Feed } from "./feed.ts";
import type { Link } from "./link.ts";
import { anthropic } from "./providers/anthropic.ts";
import { openai } from "./providers/openai.ts";
import { entriesOf, type Stream } from "./providers/prompt.ts";
import type { UserMessage } from "../../clients/typescript/src/types.ts";
import { STOPPED_ATTEMPT, type Accepted, type FoldReply, type FoldRequest, type LedgerEntry, type Wait } from "./records.ts";
import { Tools } from "./tools.ts";
import { type Call, type Message, type ModelCall, Turn } from "./turn.ts";
import { newest, tokensOf, weigh, windowOf } from "./window.ts";

/** Model calls of one turn. */
const STEPS_MAX = 50;
const TURN_MAX_MS = 10 * 60 * 1000;
/** Numbers of events that are reserved at a time, after the first; and those that are left for what cannot wait. */
const RESERVED_MORE = 2_048;
const RESERVED_SPARE = 8;
/** How long to wait before the end of a turn is stored once more. */
const FOLD_WAITS_MS = [100, 1_000, 5_000];

export class Run {
  readonly accepted: Accepted;
  readonly feed: Feed;
  #env: Env;
  #link: Link;
  #runner: string;
  #turn: Turn;
  #tools: Tools;
  #history: Message[] = [];
  #started: string[] = [];
  /** Who has come before the run knows what was told before it; undefined when it does. */
  #early: [connection: string, after: number | null][] | undefined;
  /** Whether the events of the turn are too many to be stored. */
  #isEventless = false;
  #reserved: number;
  #stop = new AbortController();
  #isEnding = false;
  /** Whether it was interrupted before the run knows what was told before it. */
  #isStoppedEarly = false;

  constructor(env: Env, link: Link, tenant: string, runner: string, accepted: Accepted, deliver: (batch: Batch) => void) {
    this.#env = env;
    this.#link = link;
    this.#runner = runner;
    this.accepted = accepted;
    this.#reserved = accepted.reserved;
    this.#early = this.#isResumed ? [] : undefined;
    const scope = { ...scopeOf(accepted.image), agentId: accepted.agentId, turnId: accepted.turnId };
    this.feed = new Feed(scope, accepted.firstSeq, accepted.listeners, deliver, link);
    this.#turn = new Turn(accepted.turnId, accepted.user.id, accepted.acceptedAt);
    this.#tools = new Tools(env, accepted.image.definition.tools, accepted.image, tenant);
  }

  /** Tells that the turn has begun. That one goes on is told when it is known from where. */
  begin(isQueued = false): void {
    const { turnId, acceptedAt, user, image } = this.accepted;
    if (!this.#isResumed) this.feed.tell(opening(image, turnId, user, acceptedAt, isQueued));
  }

  get #isResumed(): boolean {
    return this.accepted.body !== undefined || this.accepted.lost !== undefined;
  }

  /** Tells that the turn goes on, from the number on that follows the last one which may have been told. */
  #goOn(): void {
    const { turnId, user, image, acceptedAt, attempt, body, lost, firstSeq } = this.accepted;
    const at = Date.now();
    if (body === undefined) this.feed.tell(opening(image, turnId, user, acceptedAt, false));
    else if (this.feed.log.length === 0) this.feed.startAfter(lost ?? firstSeq);
    const unknown = Math.max(0, (lost ?? 0) - this.feed.lastSeq);
    this.feed.tell(Array.from({ length: unknown + 1 }, () => resumed(turnId, user.id, attempt, at)));
    for (const [connection, after] of this.#early?.splice(0) ?? []) this.feed.listen(connection, after);
    this.#early = undefined;
    if (this.#isStoppedEarly) this.#tellInterrupt();
  }

  /** Somebody else listens from now on. */
  listen(connection: string, after: number | null): void {
    if (this.#early === undefined) this.feed.listen(connection, after);
    else this.#early.push([connection, after]);
  }

  /** Tells that the turn is being stopped. `stop` stops it. */
  announceInterrupt(): void {
    // The end has its numbers already, and nothing is told after it.
    if (this.#isEnding || this.#stop.signal.aborted) return;
    if (this.#early === undefined) this.#tellInterrupt();
    else this.#isStoppedEarly = true;
  }

  #tellInterrupt(): void {
    const { containerId } = this.accepted.image;
    this.feed.tell([tell("interrupted", { agentId: this.accepted.agentId, containerId, turnId: this.accepted.turnId }, Date.now())]);
  }

  stop(): void {
    this.#stop.abort();
  }

  /** Runs the turn to its end, or until it waits for somebody; returns the turn that this Worker is to run next. */
  async run(): Promise<Accepted | undefined> {
    if (this.accepted.attempt === STOPPED_ATTEMPT) this.#stop.abort();
    const deadline = setTimeout(() => this.#stop.abort(new ProviderError("timeout", `The turn took longer than ${TURN_MAX_MS / 1000} s`, true)), TURN_MAX_MS);
    let told: Told[];
    try {
      told = await this.#answer();
    } catch (error) {
      told = this.#failed(error);
    } finally {
      clearTimeout(deadline);
    }
    return await this.#fold(told);
  }

  /** Calls the model and tools; returns how the turn ends, or that it waits. */
  async #answer(): Promise<Told[]> {
    await this.#restore();
    if (this.#isResumed) this.#goOn();
    if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
    let told = await this.#resume();
    for (let step = 0; told === undefined; step++) {
      if (step >= STEPS_MAX) throw new EdgeError("turn_limit_reached", `A turn makes at most ${STEPS_MAX} calls of the model`);
      told = (await this.#ask()) ?? (await this.#callTools());
    }
    return told;
  }

  #failed(error: unknown): Told[] {
    const reason: unknown = this.#stop.signal.aborted ? this.#stop.signal.reason : error;
    if (this.#stop.signal.aborted && !(reason instanceof EdgeError)) return this.#turn.interrupt(Date.now());
    const known = visible(reason);
    return this.#turn.fail(known.code, known.message, known instanceof ProviderError && known.recoverable, Date.now());
  }

  /** Reads what is stored of the session, and of the turn itself. */
  async #restore(): Promise<void> {
    const { accepted } = this;
    this.#history = await messagesOf(accepted.history);
    const before: Body | undefined = accepted.body === undefined ? undefined : await unpack(accepted.body);
    if (before === undefined) return;
    accepted.user = before.messages[0] as UserMessage;
    this.#turn.restore(before.messages.slice(1), before.produced ?? 0, before.usage);
    this.#started = before.started ?? [];
    this.feed.restore(unpackEvents(before.events, before.first ?? 0));
    this.#isEventless = before.events.length === 0;
  }

  /** Goes on with a turn that has waited, or whose Worker is gone. Its end, if it has come. */
  async #resume(): Promise<Told[] | undefined> {
    if (this.#turn.pending.length === 0) return undefined;
    const superseded = this.accepted.waits.some((wait) => wait.answer?.decision === "superseded");
    if (!superseded) return await this.#callTools();
    for (const call of this.#turn.pending) {
      const outcome = { result: "Not made: the user went on with another message.", isError: false, denied: true };
      await this.#tell(this.#turn.finish(call, outcome, Date.now()));
    }
    return this.#turn.interrupt(Date.now());
  }

  /** One call of the model; the end of the turn, if it has come. */
  async #ask(): Promise<Told[] | undefined> {
    const turn = this.#turn;
    for await (const output of this.#stream()) {
      const events = turn.step(output, Date.now());
      if (turn.ended) return events;
      await this.#tell(events);
      if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
    }
    return undefined;
  }

  /** Tells events; before the reserved numbers end, more are reserved. */
  async #tell(events: Told[]): Promise<void> {
    if (this.feed.lastSeq + events.length > this.#reserved - RESERVED_SPARE) {
      const { image, n, turnId, attempt } = this.accepted;
      const lastSeq = this.feed.lastSeq + events.length + RESERVED_MORE;
      if (!(await this.#link.stub.reserve({ sessionId: image.sessionId, n, turnId, attempt, runner: this.#runner, lastSeq }))) throw new Superseded();
      this.#reserved = Math.max(this.#reserved, lastSeq);
    }
    this.feed.tell(events);
  }

  #stream(): Stream {
    const { definition } = this.accepted.image;
    const { provider, key, model } = modelOf(this.#env, definition.model);
    const window = windowOf(provider, model);
    const answerTokens = Math.min(definition.maxTokens ?? maxTokens(this.#env), Math.floor(window / 2));
    const current = [this.accepted.user, ...this.#turn.messages];
    const told = tokensOf(definition.systemPrompt ?? "") + tokensOf(JSON.stringify(this.#tools.specs)) + weigh(current);
    const prompt = {
      model,
      ...(definition.systemPrompt ? { system: definition.systemPrompt } : {}),
      entries: entriesOf([...newest(this.#history, window - answerTokens - (definition.thinking ?? 0) - told), ...current]),
      maxTokens: answerTokens,
      ...(definition.temperature === undefined ? {} : { temperature: definition.temperature }),
      ...(definition.thinking === undefined ? {} : { thinking: definition.thinking }),
      tools: this.#tools.specs,
      providerTools: this.#tools.ofProvider(this.#isTainted),
    };
    const call = { signal: this.#stop.signal, silenceMs: silenceMs(this.#env, provider) };
    return (provider.kind === "anthropic" ? anthropic : openai)(provider.baseUrl, key, prompt, call);
  }

  /** The calls that the model has asked for: run, or held. The end of this run, if only calls are left that wait. */
  async #callTools(): Promise<Told[] | undefined> {
    const turn = this.#turn;
    const waits = new Map(this.accepted.waits.map((wait) => [wait.callId, wait]));
    const isTainted = this.#isTainted;
    const isHeld = (call: Call): boolean => !waits.has(call.id) && call.problem === undefined && this.#tools.waitsFor(call, isTainted) !== undefined;
    const due = turn.pending.filter((call) => !isHeld(call));
    const held = await Promise.all(turn.pending.filter(isHeld).map((call) => this.#tools.hold(call, isTainted, waitMs(this.#env))));
    if (due.some((call) => !this.#tools.mayRepeat(call.name))) await this.#checkpoint(due.map((call) => call.id));
    await Promise.all(
      due.map(async (call) => {
        const wait = waits.get(call.id);
        if (wait?.answer !== undefined) await this.#tell(this.#tools.answered(wait, this.accepted.turnId, Date.now()));
        const outcome = await this.#tools.run(call, wait?.answer, isTainted, this.#started.includes(call.id), this.#stop.signal);
        if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
        await this.#tell(turn.finish(call, outcome, Date.now()));
      }),
    );
    this.accepted.waits = held;
    return held.length === 0 ? undefined : this.#park(held);
  }

  /** Whether the model has read what strangers wrote. */
  get #isTainted(): boolean {
    return this.#tools.isForeign(this.#history) || this.#tools.isForeign(this.#turn.messages);
  }

  #park(waits: readonly Wait[]): Told[] {
    const { turnId, user, acceptedAt } = this.accepted;
    const at = Date.now();
    const parked = tell("turn_parked", { turnId, messageId: user.id, waits: waits.map((wait) => wait.waitId), active: at - acceptedAt, timestamp: at }, at);
    return [...waits.map((wait) => this.#tools.waiting(wait, turnId, at)), parked];
  }

  /** Stores that calls are about to begin which must not run twice. */
  async #checkpoint(callIds: readonly string[]): Promise<void> {
    const reply = await this.#store("running", await this.#packed(callIds), []);
    if (!reply.stored) throw new Superseded();
  }

  async #fold(end: Told[]): Promise<Accepted | undefined> {
    const isParked = !this.#turn.ended;
    this.#isEnding = true;
    const last = this.feed.number(end);
    const reply = await this.#store(isParked ? "parked" : "ended", await this.#packed(this.#started), isParked ? this.accepted.waits : []);
    // Of a turn that was taken back or deleted nobody else tells the end.
    if (reply.stored || reply.isGone) this.#tellEnd(last);
    return reply.next;
  }

  #tellEnd(last: Numbered[]): void {
    this.feed.send(last);
    this.feed.flush();
  }

  async #store(state: "running" | "parked" | "ended", body: string | ArrayBuffer, waits: Wait[]): Promise<FoldReply> {
    const { image, n, turnId, attempt } = this.accepted;
    const request = { sessionId: image.sessionId, n, turnId, attempt, runner: this.#runner, state, body, waits };
    const calls = this.#turn.calls.splice(0);
    const lastSeq = state === "running" ? this.#reserved : this.feed.lastSeq;
    return await this.#foldSurely({ ...request, lastSeq, entries: calls.map((call) => this.#entry(call)) });
  }

  /** Asks an object that cannot be reached again: it may be moving, and knows what it has stored before. */
  async #foldSurely(request: FoldRequest): Promise<FoldReply> {
    for (const wait of FOLD_WAITS_MS) {
      try {
        return await this.#link.stub.fold(request);
      } catch (error) {
        visible(error);
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
    return await this.#link.stub.fold(request);
  }

  #entry({ messageId, usage, at }: ModelCall): LedgerEntry {
    const { image, turnId, attempt } = this.accepted;
    const { containerId, imageId, sessionId } = image;
    const { name, provider, model } = modelOf(this.#env, image.definition.model);
    return { id: `${messageId}:${attempt}`, at, containerId, imageId, sessionId, turnId, driver: provider.kind, provider: name, model, usage };
  }

  async #packed(started: readonly string[]): Promise<string | ArrayBuffer> {
    const body = await pack(this.#body(started));
    if (sizeOf(body) <= BODY_MAX_BYTES) return body;
    // The events can be left out: who asks for them is told to read the history.
    this.#isEventless = true;
    const rest = await pack(this.#body(started));
    if (sizeOf(rest) <= BODY_MAX_BYTES) return rest;
    this.#turn.shorten();
    return await pack(this.#body(started));
  }

  #body(started: readonly string[]): Body {
    const { messages, produced, usage } = this.#turn;
    const events = this.#isEventless ? [] : this.feed.log;
    return { messages: [this.accepted.user, ...messages], events: packEvents(events), first: events[0]?.seq ?? 0, produced, usage, started: [...started] };
  }
}

/** Another Worker has the turn. */
class Superseded extends Error {}
