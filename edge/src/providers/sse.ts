/** SSE — reads a stream of server-sent events under a deadline for each piece, and makes errors of what goes wrong. */

import { readText } from "../bounded.ts";
import { ProviderError } from "../errors.ts";

/** Of a line, and of the lines of one event. */
const EVENT_MAX_CHARACTERS = 4 * 1024 * 1024;
const ERROR_TEXT_MAX = 500;
const ERROR_MAX_BYTES = 64 * 1024;
/** What the runtime says of a body that is not what its content-encoding says. */
const UNREADABLE = /gzip|deflate|brotli|compress/i;
const TOKENS_MAX = 10 ** 12;

export interface Call {
  url: string;
  headers: Record<string, string>;
  body: unknown;
  /** Ends the call: the turn was interrupted. */
  signal: AbortSignal;
  /** How long the provider may be silent. */
  silenceMs: number;
}

/** Makes a request, and yields the data of its events. */
export async function* events(call: Call): AsyncGenerator<string> {
  const stop = new AbortController();
  const give = (): void => stop.abort();
  call.signal.addEventListener("abort", give, { once: true });
  if (call.signal.aborted) give();
  try {
    const response = await within(call, stop, send(call, stop.signal));
    if (!response.ok) throw refusal(response.status, (await within(call, stop, readText(response, ERROR_MAX_BYTES))).text);
    if (response.body === null) throw new ProviderError("provider_protocol_error", "The provider answered with nothing", true);
    yield* dataOf(call, stop, response.body.getReader());
  } finally {
    call.signal.removeEventListener("abort", give);
    stop.abort();
  }
}

async function send(call: Call, signal: AbortSignal): Promise<Response> {
  const headers = { ...call.headers, "content-type": "application/json", accept: "text/event-stream" };
  return await fetch(call.url, { method: "POST", headers, body: JSON.stringify(call.body), signal, redirect: "manual" });
}

async function* dataOf(call: Call, stop: AbortController, reader: ReadableStreamDefaultReader<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  let data: string[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await within(call, stop, reader.read());
    rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
    const lines = rest.split(/\r\n|\n|\r/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data:")) {
        data.push(line.slice(line[5] === " " ? 6 : 5));
        // Empty lines of data take room, too.
        size += line.length;
      } else if (line === "" && data.length > 0) {
        yield data.join("\n");
        data = [];
        size = 0;
      }
    }
    if (rest.length + size > EVENT_MAX_CHARACTERS) throw new ProviderError("provider_protocol_error", "The provider sent an event that does not end", true);
    if (done) return;
  }
}

/** The promise, or an error when it fails, or takes longer than the provider may be silent. */
async function within<T>(call: Call, stop: AbortController, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new ProviderError("timeout", `The provider sent nothing for ${call.silenceMs / 1000} s`, true));
      stop.abort();
    }, call.silenceMs);
  });
  try {
    return await Promise.race([promise, late]);
  } catch (error) {
    if (error instanceof ProviderError || call.signal.aborted) throw error;
    if (UNREADABLE.test(String(error))) throw new ProviderError("provider_protocol_error", "The provider sent an answer that cannot be unpacked", true);
    throw new ProviderError("provider_unreachable", "The provider cannot be reached, or closed the connection", true);
  } finally {
    clearTimeout(timer);
  }
}

/** The error of a response that is none of success. */
function refusal(status: number, text: string): ProviderError {
  const said = `The provider answered with status ${status}: ${messageOf(text)}`;
  if (status === 401 || status === 403) return new ProviderError("provider_auth_failed", said, false);
  if (status === 408 || status === 504) return new ProviderError("timeout", said, true);
  if (status < 400) return new ProviderError("provider_protocol_error", said, true);
  if (status === 429) return new ProviderError("provider_rate_limited", said, true);
  if (status >= 500) return new ProviderError("provider_overloaded", said, true);
  return new ProviderError("provider_bad_request", said, false);
}

function messageOf(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: { message?: unknown } };
    if (typeof error?.message === "string") return error.message.slice(0, ERROR_TEXT_MAX);
  } catch {
    // Not JSON: the text itself says what there is to say.
  }
  return text.slice(0, ERROR_TEXT_MAX);
}

/** A number of tokens in a usage: none of a provider is below zero, or beyond what a call can have. */
export function tokens(value: unknown): number {
  const count = value ?? 0;
  if (typeof count !== "number" || !Number.isFinite(count)) throw new ProviderError("provider_protocol_error", "The provider sent a usage that is no number", true);
  return Math.min(Math.max(0, Math.trunc(count)), TOKENS_MAX);
}

/** The JSON of an event. */
export function decode(data: string): Record<string, any> {
  try {
    return JSON.parse(data) as Record<string, any>;
  } catch {
    throw new ProviderError("provider_protocol_error", "The provider sent an event that is not JSON", true);
  }
}

/** The error that a provider reports within its stream. */
export function reported(type: unknown, message: unknown): ProviderError {
  const text = typeof message === "string" ? message.slice(0, ERROR_TEXT_MAX) : "The provider reported an error";
  switch (type) {
    case "overloaded_error":
      return new ProviderError("provider_overloaded", text, true);
    case "rate_limit_error":
      return new ProviderError("provider_rate_limited", text, true);
    case "invalid_request_error":
      return new ProviderError("provider_bad_request", text, false);
    default:
      return new ProviderError("provider_error", text, true);
  }
}

export const cutOff = (): ProviderError => new ProviderError("provider_protocol_error", "The provider ended its answer in the middle", true);
