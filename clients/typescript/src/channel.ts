/**
 * Channel — one connection to a server: commands with replies, events, and coming back after a loss.
 *
 * A lost connection is opened again, with growing delays. Sessions that are followed continue after the last event that was
 * taken, so that each comes once. A command whose reply was lost rejects with `channel_closed`: the server may have carried it
 * out. Refused credentials are not tried again.
 */

import { backoffMs, Cursors } from "./cursors.ts";
import { AgentVMError, channelClosed } from "./errors.ts";
import { type AgentEvent, decodeFrame, type EventOf, type Frame, type Unsubscribe } from "./frames.ts";
import { type Key, keyOf } from "./http.ts";
import { HttpSocket } from "./http_socket.ts";
import type { Commands, Events } from "./types.ts";

/** `waiting`: for the next attempt. `refused`: the server does not take these credentials. */
export type ChannelState = "closed" | "connecting" | "open" | "waiting" | "refused";

export interface ChannelOptions {
  /** `ws://localhost:8080/ws`. */
  url: string;
  key?: Key;
  /** The constructor of sockets where there is none in the platform, as in Node 20. */
  WebSocket?: typeof WebSocket;
  /** Whether the first attempt, too, is repeated. Without it `connect` rejects when there is no server. */
  persistent?: boolean;
  /** Whether a socket over HTTP is tried where no WebSocket opens. A network may let none through. */
  overHttp?: boolean;
}

/** How a connection ended. */
export interface Closed {
  code: number;
  /** Whether it was ever open. A browser does not say why one was not. */
  wasOpen: boolean;
}

export type EventHandler = (event: AgentEvent) => void;
export type StateHandler = (state: ChannelState, closed?: Closed) => void;

interface Pending {
  resolve: (data: never) => void;
  reject: (error: Error) => void;
  timer: ReturnType<typeof setTimeout>;
}

const COMMAND_DEADLINE_MS = 30_000;
/** A connection that is not open by then is given up: a browser waits for minutes. */
const OPEN_DEADLINE_MS = 8_000;
/** After so many WebSockets in a row that did not open, every other attempt is over HTTP. */
const UNOPENED_MAX = 2;
/** Close codes after which the same credentials are not tried again. */
const REFUSED = new Map([
  [4401, "The server does not take these credentials"],
  [4403, "The user or the tenant of these credentials is suspended"],
  [4408, "These credentials have expired"],
]);

export class Channel {
  readonly #options: ChannelOptions;
  readonly #cursors = new Cursors();
  readonly #pending = new Map<string, Pending>();
  readonly #handlers = new Set<EventHandler>();
  readonly #observers = new Set<EventHandler>();
  readonly #stateHandlers = new Set<StateHandler>();
  /** Frames given while the connection was being opened. They are sent when it is open, and dropped when it is not opened. */
  readonly #unsent: string[] = [];
  #state: ChannelState = "closed";
  #socket: WebSocket | HttpSocket | undefined;
  /** Attempts in a row that did not open a connection. */
  #unopened = 0;
  /** Whether the last connection that opened was over HTTP. */
  #isOverHttp = false;
  #opening: { promise: Promise<void>; resolve: () => void; reject: (error: Error) => void } | undefined;
  /** Whether it has been open since `connect`. */
  #wasOpen = false;
  #attempt = 0;
  #number = 0;
  #retry: ReturnType<typeof setTimeout> | undefined;

  constructor(options: ChannelOptions) {
    this.#options = options;
  }

  get state(): ChannelState {
    return this.#state;
  }

  /** Opens the connection and keeps it open until `disconnect`. Resolves when it is open. */
  connect(): Promise<void> {
    if (this.#state === "open") return Promise.resolve();
    if (this.#opening === undefined) {
      let settle: { resolve: () => void; reject: (error: Error) => void } | undefined;
      const promise = new Promise<void>((resolve, reject) => (settle = { resolve, reject }));
      // Who does not await it hears of the states.
      promise.catch(() => undefined);
      this.#opening = { promise, ...settle! };
    }
    const { promise } = this.#opening;
    if (this.#state === "closed" || this.#state === "refused") this.#open();
    return promise;
  }

  disconnect(): void {
    clearTimeout(this.#retry);
    this.#wasOpen = false;
    const socket = this.#socket;
    this.#socket = undefined;
    this.#drop(channelClosed("The channel was closed"));
    if (this.#state !== "closed") this.#become("closed");
    socket?.close();
  }

  /** Tries again at once: the network is back. */
  reconnect(): void {
    this.#attempt = 0;
    if (this.#state === "waiting") this.#open();
  }

  /** Sends a frame as it is, when the connection is open. */
  send(frame: Frame): void {
    const text = JSON.stringify(frame);
    if (this.#state === "open") this.#socket?.send(text);
    else if (this.#state === "connecting") this.#unsent.push(text);
    else throw channelClosed("There is no connection to the server");
  }

  /** Calls the handler with every new event, exactly once for a session that is followed; or with those of one type. */
  on(handler: EventHandler): Unsubscribe;
  on<K extends keyof Events>(type: K, handler: (event: EventOf<K>) => void): Unsubscribe;
  on<K extends keyof Events>(first: K | EventHandler, second?: (event: EventOf<K>) => void): Unsubscribe {
    const handler: EventHandler =
      typeof first === "function" ? first : (event) => void (event.type === first && second?.(event as unknown as EventOf<K>));
    this.#handlers.add(handler);
    return () => this.#handlers.delete(handler);
  }

  /** Calls the handler with every event as it comes, also with one that comes again. */
  onFrame(handler: EventHandler): Unsubscribe {
    this.#observers.add(handler);
    return () => this.#observers.delete(handler);
  }

  /** Calls the handler whenever the state changes. */
  onState(handler: StateHandler): Unsubscribe {
    this.#stateHandlers.add(handler);
    return () => this.#stateHandlers.delete(handler);
  }

  /** Reads a page of a session and follows it: its events come to the handlers from the end of that page on. */
  async openSession(sessionId: string, limit: number, turns = false): Promise<Commands["session_history"]["reply"]> {
    this.#cursors.open(sessionId);
    return this.ask("session_history", { sessionId, order: "newest", limit, follow: true, ...(turns ? { turns } : {}) }, (page) =>
      this.#cursors.follow(sessionId, Number(page.logCursor ?? 0)),
    );
  }

  isFollowing(sessionId: string): boolean {
    return this.#cursors.has(sessionId);
  }

  /** From now on only whole messages of the session are heard, if its container is followed. */
  leaveSession(sessionId: string): void {
    const frame = this.#cursors.leave(sessionId);
    if (this.#state === "open") this.send(frame);
  }

  /** Hears of all sessions of a container, without deltas. */
  followContainer(containerId: string): void {
    const frame = this.#cursors.list(containerId);
    if (frame !== undefined && this.#state === "open") this.send(frame);
  }

  /** Sends a command and resolves with its reply. Rejects with `AgentVMError`. `at` is called before the next frame is read. */
  ask<K extends keyof Commands>(
    command: K,
    data: Commands[K]["request"],
    at?: (reply: Commands[K]["reply"]) => void,
  ): Promise<Commands[K]["reply"]> {
    return new Promise((resolve, reject) => {
      const requestId = `c${(this.#number += 1)}`;
      this.send({ type: `${command}_request`, timestamp: Date.now(), data: { ...data, requestId }, source: "command", category: "request", intent: "request" });
      const timer = setTimeout(() => {
        this.#pending.delete(requestId);
        reject(new AgentVMError("request_timeout", "The server has not answered within 30 seconds"));
      }, COMMAND_DEADLINE_MS);
      const settle = (reply: Commands[K]["reply"]) => {
        at?.(reply);
        resolve(reply);
      };
      this.#pending.set(requestId, { resolve: settle as (data: never) => void, reject, timer });
    });
  }

  #open(): void {
    clearTimeout(this.#retry);
    this.#become("connecting");
    const socket = this.#newSocket();
    this.#socket = socket;
    let wasOpen = false;
    const overdue = setTimeout(() => {
      this.#closed(socket, { code: 0, wasOpen });
      socket.close();
    }, OPEN_DEADLINE_MS);
    socket.onopen = () => {
      clearTimeout(overdue);
      wasOpen = this.#wasOpen = true;
      this.#unopened = 0;
      this.#isOverHttp = socket instanceof HttpSocket;
      void this.#welcome(socket);
    };
    socket.onmessage = (message: { data: unknown }) => {
      if (socket === this.#socket) this.#receive(String(message.data));
    };
    socket.onclose = (event: { code: number }) => {
      clearTimeout(overdue);
      this.#closed(socket, { code: event.code, wasOpen });
    };
  }

  /** A WebSocket, unless the last connection was over HTTP, or none has opened for a while and it is the turn of HTTP. */
  #newSocket(): WebSocket | HttpSocket {
    const { url, key, overHttp } = this.#options;
    const isTurn = this.#isOverHttp ? this.#unopened % 2 === 0 : this.#unopened >= UNOPENED_MAX && this.#unopened % 2 === 0;
    if (overHttp === true && isTurn) return new HttpSocket(url, key);
    const Socket = this.#options.WebSocket ?? globalThis.WebSocket;
    if (Socket === undefined) throw new TypeError("There is no WebSocket here: use Node 22 or newer, or give one as `WebSocket`");
    return new Socket(url);
  }

  async #welcome(socket: WebSocket | HttpSocket): Promise<void> {
    const key = await keyOf(this.#options.key);
    if (socket !== this.#socket) return;
    // The handshake of a browser has no place for a key.
    if (key !== undefined && !(socket instanceof HttpSocket)) socket.send(JSON.stringify({ type: "auth", headers: { Authorization: `Bearer ${key}` } }));
    for (const subscription of this.#cursors.subscriptions()) socket.send(JSON.stringify(subscription));
    for (const text of this.#unsent.splice(0)) socket.send(text);
    this.#attempt = 0;
    this.#become("open");
    this.#opening?.resolve();
    this.#opening = undefined;
  }

  #closed(socket: WebSocket | HttpSocket, closed: Closed): void {
    if (socket !== this.#socket) return;
    this.#socket = undefined;
    if (!closed.wasOpen) this.#unopened += 1;
    const refusal = REFUSED.get(closed.code);
    if (refusal !== undefined) {
      this.#drop(new AgentVMError("unauthenticated", refusal, { status: 401 }));
      this.#become("refused", closed);
    } else if (this.#wasOpen || this.#options.persistent) {
      this.#fail(channelClosed("The connection was lost before the reply"));
      this.#become("waiting", closed);
      this.#retry = setTimeout(() => this.#open(), backoffMs(this.#attempt, Math.random()));
      this.#attempt += 1;
    } else {
      this.#drop(channelClosed(`Cannot connect to ${this.#options.url.replace(/[?#].*/, "")}`));
      this.#become("closed", closed);
    }
  }

  /** Ends everything that waits for this connection. */
  #fail(error: AgentVMError): void {
    this.#unsent.length = 0;
    for (const [requestId, { reject, timer }] of this.#pending) {
      clearTimeout(timer);
      this.#pending.delete(requestId);
      reject(error);
    }
  }

  /** Ends everything that waits for any connection. */
  #drop(error: AgentVMError): void {
    this.#fail(error);
    this.#opening?.reject(error);
    this.#opening = undefined;
  }

  #become(state: ChannelState, closed?: Closed): void {
    this.#state = state;
    for (const handler of this.#stateHandlers) handler(state, closed);
  }

  #receive(text: string): void {
    const frame = decodeFrame(text);
    if (frame === undefined) return;
    if (frame.category === "response") {
      this.#answer(frame.data as unknown as Record<string, unknown>);
      return;
    }
    for (const observer of this.#observers) observer(frame);
    if (!this.#cursors.accept(frame)) return;
    for (const handler of this.#handlers) handler(frame);
  }

  #answer({ requestId, error, errorCode, ...data }: Record<string, unknown>): void {
    const asked = this.#pending.get(String(requestId));
    if (asked === undefined) return;
    this.#pending.delete(String(requestId));
    clearTimeout(asked.timer);
    if (error === undefined) asked.resolve(data as never);
    else asked.reject(new AgentVMError(String(errorCode ?? "internal_error"), String(error)));
  }
}
