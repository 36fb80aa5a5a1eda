/**
 * HttpSocket — a socket over HTTP, for networks that let no WebSocket through: frames come as server-sent events and go as
 * requests, one after the other. It has as much of the interface of a WebSocket as the channel uses.
 */

import { type Key, keyOf } from "./http.ts";

type Listener<T> = ((event: T) => void) | null;

/** Close codes of a WebSocket, by the status with which the server refuses the stream. */
const CODES = new Map([
  [401, 4401],
  [403, 4403],
  [429, 4429],
]);
const LOST = 1006;

export class HttpSocket {
  onopen: Listener<unknown> = null;
  onmessage: Listener<{ data: string }> = null;
  onclose: Listener<{ code: number }> = null;
  readonly #url: string;
  readonly #key: Key | undefined;
  readonly #abort = new AbortController();
  readonly #unsent: string[] = [];
  #link: string | undefined;
  #isSending = false;
  #isClosed = false;

  /** `url` is that of the WebSocket. */
  constructor(url: string, key?: Key) {
    this.#url = url.replace(/^ws/, "http").replace(/[?#].*/, "");
    this.#key = key;
    void this.#run();
  }

  send(text: string): void {
    this.#unsent.push(text);
    void this.#flush();
  }

  close(): void {
    this.#end(1000);
  }

  async #run(): Promise<void> {
    try {
      const response = await this.#post("");
      if (!response.ok || response.body === null) return this.#end(CODES.get(response.status) ?? LOST);
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        text += decoder.decode(value, { stream: true });
        const events = text.split("\n\n");
        text = events.pop() ?? "";
        for (const event of events) this.#heard(event);
      }
    } catch {
      // The network, or `close`.
    }
    this.#end(LOST);
  }

  #heard(event: string): void {
    if (this.#isClosed) return;
    const kind = /^event: (.*)$/m.exec(event)?.[1];
    const data = /^data: (.*)$/m.exec(event)?.[1];
    if (data === undefined) return;
    if (kind === "link") {
      this.#link = (JSON.parse(data) as { link: string }).link;
      this.onopen?.(undefined);
    } else if (kind === "close") this.#end((JSON.parse(data) as { code: number }).code);
    else this.onmessage?.({ data });
  }

  /** Sends what waits, together. Frames stay in order: the next request leaves when the one before was taken. */
  async #flush(): Promise<void> {
    if (this.#isSending || this.#link === undefined) return;
    this.#isSending = true;
    try {
      while (this.#unsent.length > 0 && !this.#isClosed) {
        const response = await this.#post(`/${this.#link}`, this.#unsent.splice(0).join("\n"));
        if (!response.ok) return this.#end(CODES.get(response.status) ?? LOST);
      }
    } catch {
      this.#end(LOST);
    } finally {
      this.#isSending = false;
    }
  }

  async #post(path: string, body?: string): Promise<Response> {
    const key = await keyOf(this.#key);
    const headers: Record<string, string> = key === undefined ? {} : { Authorization: `Bearer ${key}` };
    return fetch(`${this.#url}${path}`, { method: "POST", headers, body, signal: this.#abort.signal, cache: "no-store" });
  }

  #end(code: number): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#abort.abort();
    this.onclose?.({ code });
  }
}
