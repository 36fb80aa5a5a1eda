/** AgentX — the entry point of an application: the blueprints of agents, and the runtime in which they run. */

import { managementApi } from "./api.ts";
import { Channel, type ChannelOptions } from "./channel.ts";
import { HttpClient, type HttpOptions } from "./http.ts";
import { Runtime } from "./runtime.ts";
import type { Commands, Definition, HttpVerbs, ImageConfig, ImageRecord } from "./types.ts";

/** What `createAgentX` opens. */
export interface RuntimeSource {
  channel: Channel;
  http: HttpClient;
}

export interface RemoteOptions extends ChannelOptions, Omit<HttpOptions, "url"> {}

/** A runtime on a server: `remoteRuntime({ url: "ws://localhost:8080/ws", key })`. */
export function remoteRuntime(options: RemoteOptions): RuntimeSource {
  const url = new URL(options.url);
  url.protocol = url.protocol.replace(/^ws/, "http");
  const http = new HttpClient({ ...options, url: `${url.origin}${url.pathname.replace(/(\/ws)?\/?$/, "")}` });
  return { channel: new Channel(options), http };
}

export function createAgentX(source: RuntimeSource): AgentX {
  return new AgentX(source);
}

export class AgentX {
  readonly definitions: DefinitionManager;
  readonly images: ImageManager;
  readonly runtime: Runtime;
  /** Requests and files to the management API, and its operations by noun. */
  readonly http: HttpClient;
  readonly api: HttpVerbs;

  constructor({ channel, http }: RuntimeSource) {
    this.runtime = new Runtime(channel);
    this.definitions = new DefinitionManager(this.runtime);
    this.images = new ImageManager(this.runtime);
    this.http = http;
    this.api = managementApi(http);
  }

  /** Ends the connection. Turns go on: they belong to the server. */
  dispose(): void {
    this.runtime.channel.disconnect();
  }
}

export type DefinitionState = Commands["definition_list"]["reply"]["definitions"][number];

export class DefinitionManager {
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  async list(): Promise<DefinitionState[]> {
    return (await this.#runtime.ask("definition_list", {})).definitions;
  }

  /** A definition by its name, or by the URI of an agent. */
  async get(definitionName: string): Promise<DefinitionState | undefined> {
    return (await this.#runtime.ask("definition_get", { definitionName })).definition ?? undefined;
  }
}

export class ImageManager {
  readonly #runtime: Runtime;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Builds an image of a definition. */
  async build(definition: Definition | string, config?: ImageConfig, containerId = "default"): Promise<ImageRecord> {
    return (await this.#runtime.ask("image_build", { containerId, definition, config })).record;
  }

  /** Creates an image without a definition. */
  async create(config: ImageConfig, containerId = "default"): Promise<ImageRecord> {
    return (await this.#runtime.ask("image_create", { containerId, config })).record;
  }

  async get(imageId: string): Promise<ImageRecord | undefined> {
    return (await this.#runtime.ask("image_get", { imageId })).record ?? undefined;
  }

  async list(containerId?: string): Promise<ImageRecord[]> {
    return (await this.#runtime.ask("image_list", { containerId })).records;
  }

  async delete(imageId: string): Promise<void> {
    await this.#runtime.ask("image_delete", { imageId });
  }
}
