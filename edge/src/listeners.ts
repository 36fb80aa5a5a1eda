/** Listeners — the sockets of Workers at one object: who wants to hear what, and what they are told. They survive its sleep. */

import type { Batch } from "./events.ts";
import type * as records from "./records.ts";

/** Sessions that are named to the object; a socket that wants more hears all of them. */
const SESSIONS_NAMED_MAX = 20;

interface Listener {
  connection: string;
  /** Undefined: all of them. */
  sessions?: string[];
}

export class Listeners {
  #ctx: DurableObjectState;

  constructor(ctx: DurableObjectState) {
    this.#ctx = ctx;
  }

  /** The socket of a Worker that hears of the container only. */
  open(connection: string): WebSocket {
    const pair = new WebSocketPair();
    this.#ctx.acceptWebSocket(pair[1], [connection]);
    pair[1].serializeAttachment({ connection, sessions: [] } satisfies Listener);
    return pair[0];
  }

  connectionOf(socket: WebSocket): string {
    return (socket.deserializeAttachment() as Listener).connection;
  }

  /** Answers that a socket is being closed. */
  close(socket: WebSocket): void {
    try {
      socket.close(1000, "done");
    } catch {
      // Its Worker has gone without waiting.
    }
  }

  isAlive(connection: string): boolean {
    return connection !== "" && this.#ctx.getWebSockets(connection).length > 0;
  }

  /** From now on everything is heard. */
  follow(socket: WebSocket): void {
    socket.serializeAttachment({ connection: this.connectionOf(socket) } satisfies Listener);
  }

  /** From now on this session is heard, too. */
  add(socket: WebSocket, sessionId: string): void {
    const { connection, sessions: before } = socket.deserializeAttachment() as Listener;
    const sessions = before === undefined ? undefined : [...new Set([...before, sessionId])];
    const named = sessions !== undefined && sessions.length <= SESSIONS_NAMED_MAX;
    socket.serializeAttachment({ connection, ...(named ? { sessions } : {}) } satisfies Listener);
  }

  remove(socket: WebSocket, sessionId: string): void {
    const { connection, sessions } = socket.deserializeAttachment() as Listener;
    if (sessions === undefined) return;
    socket.serializeAttachment({ connection, sessions: sessions.filter((other) => other !== sessionId) } satisfies Listener);
  }

  /** How many hear a session, beside one connection. */
  count(sessionId: string, but: string): number {
    return this.#hearing(sessionId, but).length;
  }

  /** To those who hear the session of the batch, but one that has come after it; or to one connection. */
  post(batch: Batch, from: string, to: string | null, but = ""): void {
    if (to !== null) return this.tell(to, { kind: "batch", batch });
    const others = this.#hearing(batch.scope.sessionId ?? "", from).filter((socket) => this.connectionOf(socket) !== but);
    this.#send(others, { kind: "batch", batch });
  }

  /** To everybody who listens to the container, but the connection that it comes from. */
  broadcast(batch: Batch, from: string): void {
    const others = this.#ctx.getWebSockets().filter((socket) => this.connectionOf(socket) !== from);
    this.#send(others, { kind: "batch", batch });
  }

  tell(connection: string, down: records.Down): void {
    this.#send(this.#ctx.getWebSockets(connection), down);
  }

  #hearing(sessionId: string, but: string): WebSocket[] {
    return this.#ctx.getWebSockets().filter((socket) => {
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
}
