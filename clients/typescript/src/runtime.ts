/** Runtime — the running things of a server, reached over a channel: containers, sessions, agents, and their events. */

import type { Channel, EventHandler } from "./channel.ts";
import { channelClosed } from "./errors.ts";
import type { AgentEvent, EventOf, Unsubscribe } from "./frames.ts";
import { Session } from "./session.ts";
import type { AgentRecord, CommandVerbs, Commands, Events } from "./types.ts";
import { nouns } from "./verbs.ts";

/** Where events are heard. */
export interface Ecosystem<E> {
  on(handler: (event: E) => void): Unsubscribe;
}

type Reply<K extends keyof Commands> = Commands[K]["reply"];

export class Runtime implements Ecosystem<AgentEvent> {
  readonly channel: Channel;
  readonly containers: ContainerManager;
  readonly sessions: SessionManager;
  readonly agents: AgentManager;
  /** Every command as a function: `runtime.commands.session.pin({ sessionId })`. */
  readonly commands: CommandVerbs;

  constructor(channel: Channel) {
    this.channel = channel;
    this.containers = new ContainerManager(this);
    this.sessions = new SessionManager(this);
    this.agents = new AgentManager(this);
    this.commands = nouns((noun, verb, request) => this.ask(`${noun}_${verb}` as keyof Commands, (request ?? {}) as never));
  }

  /** Calls the handler with every new event, or with those of one type. */
  on(handler: EventHandler): Unsubscribe;
  on<K extends keyof Events>(type: K, handler: (event: EventOf<K>) => void): Unsubscribe;
  on<K extends keyof Events>(first: K | EventHandler, second?: (event: EventOf<K>) => void): Unsubscribe {
    return typeof first === "function" ? this.channel.on(first) : this.channel.on(first, second!);
  }

  /** Sends a command by its name; the first one opens the channel. Rejects with `AgentVMError`. */
  async ask<K extends keyof Commands>(command: K, data: Commands[K]["request"]): Promise<Reply<K>> {
    if (this.channel.state === "closed") await this.channel.connect();
    return this.channel.ask(command, data);
  }

  /**
   * Like `ask`, for a command that the server carries out once however often it is sent: over a lost connection, it is sent
   * again on the next one.
   */
  async askOnce<K extends keyof Commands>(command: K, data: Commands[K]["request"]): Promise<Reply<K>> {
    for (;;) {
      try {
        return await this.ask(command, data);
      } catch (error) {
        if ((error as { code?: string }).code !== "channel_closed" || !(await this.#isBack())) throw error;
      }
    }
  }

  /** Whether the channel is open again; false if nobody tries to open it any more. */
  #isBack(): Promise<boolean> {
    if (this.channel.state === "open") return Promise.resolve(true);
    if (this.channel.state === "closed" || this.channel.state === "refused") return Promise.resolve(false);
    return new Promise((resolve) => {
      const stop = this.channel.onState((state) => {
        if (state === "connecting" || state === "waiting") return;
        stop();
        resolve(state === "open");
      });
    });
  }

  /** Every event from the call on, in order; `isLast` says which one ends it. Fails when the channel does, or has a gap. */
  events(sessionId: string, isLast: (event: AgentEvent) => boolean): EventStream {
    return new EventStream(this.channel, sessionId, isLast);
  }
}

/** Events of one session, kept from the moment that it was made until somebody reads them. */
export class EventStream {
  readonly #events: AgentEvent[] = [];
  readonly #stops: Unsubscribe[];
  #error: Error | undefined;
  #wake: (() => void) | undefined;
  readonly #isLast: (event: AgentEvent) => boolean;

  constructor(channel: Channel, sessionId: string, isLast: (event: AgentEvent) => boolean) {
    this.#isLast = isLast;
    const fail = (message: string) => {
      this.#error ??= channelClosed(message);
      this.#wake?.();
    };
    this.#stops = [
      channel.on((event) => {
        if (event.type === "resync_required" && event.data.sessionId === sessionId) fail("Events were missed; read the history of the session");
        if (event.context?.sessionId !== sessionId) return;
        this.#events.push(event);
        if (this.#events.length > EVENTS_MAX) fail("Nobody has read the events; read the history of the session");
        this.#wake?.();
      }),
      channel.onState((state) => {
        if (state === "closed" || state === "refused") fail("The channel was closed before the turn ended; read the history of the session");
      }),
    ];
  }

  close(): void {
    for (const stop of this.#stops) stop();
  }

  async *read(): AsyncGenerator<AgentEvent, void, undefined> {
    try {
      for (;;) {
        const event = this.#events.shift();
        if (event !== undefined) {
          yield event;
          if (this.#isLast(event)) return;
        } else if (this.#error !== undefined) {
          throw this.#error;
        } else {
          await new Promise<void>((resolve) => (this.#wake = resolve));
        }
      }
    } finally {
      this.close();
    }
  }
}

/** Events that may wait for a reader. */
const EVENTS_MAX = 100_000;

export class ContainerManager {
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  async create(containerId: string): Promise<string> {
    await this.#runtime.ask("container_create", { containerId });
    return containerId;
  }

  async exists(containerId: string): Promise<boolean> {
    return (await this.#runtime.ask("container_get", { containerId })).exists;
  }

  /** Lists all containers, the oldest first. */
  async list(): Promise<string[]> {
    const all: string[] = [];
    let cursor: string | undefined;
    do {
      const page: Reply<"container_list"> = await this.#runtime.ask("container_list", { cursor });
      all.push(...page.containerIds);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return all;
  }
}

export class SessionManager {
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Creates a session of an image; without one, of a new image of the default definition. */
  async create(imageId?: string, title?: string): Promise<Session> {
    imageId ??= (await this.#runtime.ask("image_create", { containerId: "default" })).record.imageId;
    const { session } = await this.#runtime.ask("session_create", { imageId, title });
    return new Session(this.#runtime, session!);
  }

  async get(sessionId: string): Promise<Session | undefined> {
    const { session } = await this.#runtime.ask("session_get", { sessionId });
    return session === null ? undefined : new Session(this.#runtime, session);
  }

  async list(imageId: string): Promise<Session[]> {
    const { sessions } = await this.#runtime.ask("session_list", { imageId });
    return sessions.map((session) => new Session(this.#runtime, session));
  }
}

export class AgentManager {
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  async list(containerId: string): Promise<AgentRecord[]> {
    return (await this.#runtime.ask("agent_list", { containerId })).agents;
  }

  async exists(agentId: string): Promise<boolean> {
    return (await this.#runtime.ask("agent_get", { agentId })).exists;
  }

  /** Stops an agent; resolves with whether it was there. */
  async destroy(agentId: string): Promise<boolean> {
    return (await this.#runtime.ask("agent_destroy", { agentId })).success;
  }
}
