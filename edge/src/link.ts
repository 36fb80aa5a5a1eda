/** Link — the socket on which a Worker listens to the object of a container. One that breaks is opened again. */

import type { Container } from "./container.ts";
import type { Env } from "./env.ts";
import { EdgeError, visible } from "./errors.ts";
import type { Down, Up } from "./records.ts";

export type ContainerStub = ReturnType<DurableObjectNamespace<Container>["getByName"]>;

/** How long to wait before a broken socket is opened again: objects restart, for one when the Worker is deployed. */
const REOPEN_WAITS_MS = [0, 500, 2_000, 5_000];

export interface Hearing {
  hear(down: Down): void;
  /** The socket was broken, and is open again. The object has forgotten what this Worker wanted to hear. */
  reopened?(): void;
  /** The object cannot be reached. */
  lost(): void;
}

export class Link {
  #env: Env;
  #name: string;
  #connection: string;
  #hearing: Hearing;
  #socket: WebSocket | undefined;
  #isDone = false;

  private constructor(env: Env, name: string, connection: string, hearing: Hearing) {
    this.#env = env;
    this.#name = name;
    this.#connection = connection;
    this.#hearing = hearing;
  }

  static async open(env: Env, name: string, connection: string, hearing: Hearing): Promise<Link> {
    const link = new Link(env, name, connection, hearing);
    await link.#open();
    return link;
  }

  /** A new one each time: after an error a stub may be of no use. */
  get stub(): ContainerStub {
    return this.#env.CONTAINERS.getByName(this.#name);
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  send(up: Up): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(up));
  }

  close(): void {
    this.#isDone = true;
    this.#socket?.close(1000, "done");
  }

  async #open(): Promise<void> {
    const query = new URLSearchParams({ connection: this.#connection });
    const response = await this.stub.fetch(`https://object/listen?${query}`, { headers: { Upgrade: "websocket" } });
    const socket = response.webSocket;
    if (socket === null) throw new EdgeError("internal_error", "The object of the container did not open a socket");
    socket.accept();
    if (this.#isDone) return socket.close(1000, "done");
    this.#socket = socket;
    socket.addEventListener("message", (message) => this.#hearing.hear(JSON.parse(message.data as string) as Down));
    const broken = (): void => {
      if (this.#socket !== socket) return;
      this.#socket = undefined;
      if (!this.#isDone) void this.#reopen();
    };
    socket.addEventListener("close", broken);
    socket.addEventListener("error", broken);
  }

  async #reopen(): Promise<void> {
    for (const wait of REOPEN_WAITS_MS) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      if (this.#isDone) return;
      try {
        await this.#open();
        return this.#hearing.reopened?.();
      } catch (error) {
        visible(error);
      }
    }
    this.#isDone = true;
    this.#hearing.lost();
  }
}
