/** HTTP — requests to the management API, and files to and from it. */

import { channelClosed, errorOf } from "./errors.ts";
import type { AttachmentRecord } from "./types.ts";

/** The key of a user or of a program; a function is asked before each request and each connection. */
export type Key = string | (() => string | Promise<string>);

export type Bytes = Blob | ArrayBuffer | Uint8Array<ArrayBuffer> | string;

export interface HttpOptions {
  /** The address of the server: `http://localhost:8080`; empty for that of the page. */
  url: string;
  key?: Key;
  fetch?: typeof fetch;
}

export const DEADLINE_MS = 30_000;
/** For files and streams. */
const LONG_DEADLINE_MS = 3_600_000;

export class HttpClient {
  readonly #url: string;
  readonly #key: Key | undefined;
  readonly #fetch: typeof fetch;

  constructor({ url, key, fetch: fetcher }: HttpOptions) {
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
    this.#fetch = fetcher ?? ((input, init) => fetch(input, init));
  }

  /** Asks for JSON at a path. Rejects with `AgentVMError`. */
  async request<T>(method: string, path: string, body?: unknown, headers?: Readonly<Record<string, string>>): Promise<T> {
    const json = body === undefined ? undefined : JSON.stringify(body);
    const type: Record<string, string> = json === undefined ? {} : { "Content-Type": "application/json" };
    const signal = AbortSignal.timeout(DEADLINE_MS);
    return content<T>(await this.fetch(method, path, { headers: { ...type, ...headers }, body: json, signal }));
  }

  /** The response of success, as it comes; a file or a stream is read from its `body`. Rejects with `AgentVMError`. */
  async fetch(
    method: string,
    path: string,
    { headers, body, signal }: { headers?: Readonly<Record<string, string>>; body?: Bytes; signal?: AbortSignal } = {},
  ): Promise<Response> {
    const isFile = body !== undefined && typeof body !== "string";
    const type: Record<string, string> = isFile ? { "Content-Type": "application/octet-stream" } : {};
    let response: Response;
    try {
      const sent = { ...type, ...(await this.#credentials()), ...headers };
      response = await this.#fetch(`${this.#url}${path}`, { method, headers: sent, body, signal: signal ?? AbortSignal.timeout(LONG_DEADLINE_MS) });
    } catch {
      throw unreachable();
    }
    if (!response.ok) throw errorOf(response.status, await response.text());
    return response;
  }

  /** Stores a file in a container. The `attachment` of its record is the `data` of a part of a message. */
  async upload(
    containerId: string,
    file: Bytes,
    { name, mediaType, onProgress, signal }: { name?: string; mediaType?: string; onProgress?: (part: number) => void; signal?: AbortSignal } = {},
  ): Promise<AttachmentRecord> {
    const query = new URLSearchParams({ container: containerId, ...(name === undefined ? {} : { name }) });
    const type = mediaType ?? ((file instanceof Blob && file.type) || "application/octet-stream");
    return this.send("POST", `/v1/attachments?${query}`, file, { mediaType: type, onProgress, signal });
  }

  /** Sends a file to a path, such as a document of a collection. Rejects with `AgentVMError`. */
  async send<T>(
    method: string,
    path: string,
    file: Bytes,
    { mediaType = "application/octet-stream", onProgress, signal }: { mediaType?: string; onProgress?: (part: number) => void; signal?: AbortSignal } = {},
  ): Promise<T> {
    // Only this old interface says how much has been sent.
    if (onProgress !== undefined && typeof XMLHttpRequest !== "undefined") return this.#sendWatched(method, path, file, mediaType, onProgress, signal);
    const body = typeof file === "string" ? new Blob([file]) : file;
    return content(await this.fetch(method, path, { headers: { "Content-Type": mediaType }, body, signal }));
  }

  async #sendWatched<T>(method: string, path: string, file: Bytes, type: string, onProgress: (part: number) => void, signal?: AbortSignal): Promise<T> {
    const credentials = await this.#credentials();
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open(method, `${this.#url}${path}`);
      request.timeout = LONG_DEADLINE_MS;
      for (const [name, value] of Object.entries({ "Content-Type": type, ...credentials })) request.setRequestHeader(name, value);
      request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
      const fail = () => reject(unreachable());
      Object.assign(request, { onerror: fail, ontimeout: fail, onabort: fail });
      request.onload = () => {
        if (request.status >= 200 && request.status < 300) resolve(JSON.parse(request.responseText) as T);
        else reject(errorOf(request.status, request.responseText));
      };
      signal?.addEventListener("abort", () => request.abort());
      request.send(file);
    });
  }

  async #credentials(): Promise<Record<string, string>> {
    const key = await keyOf(this.#key);
    return key === undefined ? {} : { Authorization: `Bearer ${key}` };
  }
}

/** The key itself. */
export async function keyOf(key: Key | undefined): Promise<string | undefined> {
  return typeof key === "function" ? key() : key;
}

const unreachable = () => channelClosed("The server cannot be reached");

/** JSON as what it holds, nothing as undefined, and anything else as the response itself. */
export async function content<T>(response: Response): Promise<T> {
  const type = response.headers.get("Content-Type") ?? "";
  if (type !== "" && !type.startsWith("application/json")) return response as T;
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as T;
}
