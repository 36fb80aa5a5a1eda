/** Link — the socket on which a Worker listens to the object of a container. */

import type { Container } from "./container.ts";
import type { Env } from "./env.ts";
import { EdgeError } from "./errors.ts";
import type { Down, Up } from "./records.ts";

export type ContainerStub = ReturnType<DurableObjectNamespace<Container>["getByName"]>;

export class Link {
  readonly stub: ContainerStub;
  #socket: WebSocket;

  private constructor(stub: ContainerStub, socket: WebSocket) {
    this.stub = stub;
    this.#socket = socket;
  }

  static async open(env: Env, name: string, connection: string, on: (down: Down) => void): Promise<Link> {
    const stub = env.CONTAINERS.getByName(name);
    const query = new URLSearchParams({ connection });
    const response = await stub.fetch(`https://object/listen?${query}`, { headers: { Upgrade: "websocket" } });
    const socket = response.webSocket;
    if (socket === null) throw new EdgeError("internal_error", "The object of the container did not open a socket");
    socket.accept();
    socket.addEventListener("message", (message) => on(JSON.parse(message.data as string) as Down));
    return new Link(stub, socket);
  }

  /** Whether the object still has this Worker for alive. */
  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  send(up: Up): void {
    if (this.isOpen) this.#socket.send(JSON.stringify(up));
  }

  close(): void {
    this.#socket.close(1000, "done");
  }
}
