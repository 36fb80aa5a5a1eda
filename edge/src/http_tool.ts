/**
 * HTTP tool — a call is one request to one literal host.
 *
 * The model chooses values, never the host, a header's name or a further segment of the path. Arguments that the author puts
 * nowhere form the body, or the query of a GET. Redirects are not followed: they could lead elsewhere.
 */

import { readText } from "./bounded.ts";
import { EdgeError } from "./errors.ts";
import type { ToolDefinition } from "./records.ts";
import type { Outcome } from "./turn.ts";

const TIMEOUT_MS = 30_000;
const RESULT_MAX_CHARACTERS = 100_000;
const ERROR_MAX_CHARACTERS = 2_000;
const RESPONSE_MAX_BYTES = 4 * 1024 * 1024;
const PLACEHOLDER = /\{([A-Za-z_][A-Za-z0-9_-]{0,63})\}/g;
const ENTRY = /^(?:(GET|HEAD|POST|PUT|PATCH|DELETE) )?(https?:\/\/[^/?#{}]+)(\/[^?#]*)?$/;
const PRIVATE = /^(localhost|.*\.localhost|.*\.internal|.*\.local|0\..*|10\..*|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\..*|127\..*|169\.254\..*|172\.(1[6-9]|2\d|3[01])\..*|192\.168\..*|\[.*\])$/i;

/** Gives the value of a secret for a host; an error if it was not granted. */
export type SecretOf = (name: string, host: string) => string;

const SECRET = /\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}/g;

export async function callHttp(tool: ToolDefinition, input: Record<string, unknown>, key: string, allowed: readonly string[], secretOf: SecretOf, signal: AbortSignal): Promise<Outcome> {
  const used = new Set<string>();
  const outcome = await exchange(tool, input, key, allowed, recorded(secretOf, used), signal);
  return { ...outcome, result: without(outcome.result, used) };
}

function recorded(secretOf: SecretOf, used: Set<string>): SecretOf {
  return (name, host) => {
    const value = secretOf(name, host);
    used.add(value);
    return value;
  };
}

/** A result without the secrets of its request: some hosts repeat what they were sent. */
function without(result: unknown, secrets: ReadonlySet<string>): unknown {
  if (secrets.size === 0) return result;
  if (typeof result === "string") return [...secrets].reduce((text, secret) => text.replaceAll(secret, "[secret]"), result);
  if (Array.isArray(result)) return result.map((item) => without(item, secrets));
  if (typeof result !== "object" || result === null) return result;
  return Object.fromEntries(Object.entries(result).map(([name, value]) => [without(name, secrets), without(value, secrets)]));
}

async function exchange(tool: ToolDefinition, input: Record<string, unknown>, key: string, allowed: readonly string[], secretOf: SecretOf, signal: AbortSignal): Promise<Outcome> {
  const request = requestOf(tool, input, key, allowed, secretOf);
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(tool.timeoutMs ?? TIMEOUT_MS)]);
  let response: Response;
  let text: string;
  try {
    response = await fetch(request, { redirect: "manual", signal: deadline });
    text = await readWhole(response);
  } catch (error) {
    if (signal.aborted || error instanceof EdgeError) throw error;
    throw new EdgeError("tool_failed", `${new URL(request.url).host} cannot be reached, or did not answer in time`);
  }
  const accepted = (tool.http?.ok ?? ["2xx"]).some((pattern) => new RegExp(`^${pattern.replaceAll("x", "\\d")}$`).test(String(response.status)));
  if (!accepted) {
    return { result: `${new URL(request.url).host} answered with status ${response.status}: ${text.slice(0, ERROR_MAX_CHARACTERS)}`, isError: true };
  }
  return resultOf(tool, text, response.headers.get("content-type") ?? "");
}

/** The text of a response; an error if it is too long. */
export async function readWhole(response: Response): Promise<string> {
  const { text, isWhole } = await readText(response, RESPONSE_MAX_BYTES);
  if (!isWhole) throw new EdgeError("tool_failed", `The response has more than ${RESPONSE_MAX_BYTES.toLocaleString("en-US")} bytes`);
  return text;
}

/** The request of a call; the same for the same input and key. `allowed` are hosts of the operator's own network. */
export function requestOf(tool: ToolDefinition, input: Record<string, unknown>, key: string, allowed: readonly string[], secretOf: SecretOf): Request {
  const entry = ENTRY.exec(tool.entry ?? "");
  if (entry === null) throw new EdgeError("tool_failed", `The address of ${tool.name} is not METHOD https://host/path`);
  const [, method = "GET", origin = "", path = "/"] = entry;
  const { hostname: host, host: authority, protocol } = new URL(origin);
  if (!allowed.includes(authority) && protocol !== "https:") throw new EdgeError("egress_refused", `A tool uses https; plain http only to a host of ALLOW_HOSTS`);
  if (!allowed.includes(authority) && PRIVATE.test(host.replace(/\.$/, ""))) throw new EdgeError("egress_refused", `${host} is not an address of the public network`);
  const used = new Set<string>();
  const secretHere = (name: string): string => secretOf(name, authority);
  const url = new URL(origin + fillPath(path, input, used));
  for (const [name, value] of fill(tool.http?.query, input, used, secretHere)) url.searchParams.append(name, value);
  const headers = new Headers(fill(tool.http?.headers, input, used, secretHere));
  const rest = Object.entries(input).filter(([name]) => !used.has(name));
  if (tool.repeat === "keyed") headers.set("idempotency-key", key);
  if (method === "GET" || method === "HEAD") {
    for (const [name, value] of rest) url.searchParams.append(name, textOf(value));
    return new Request(url.href, { method, headers });
  }
  return new Request(url.href, { method, headers, ...bodyOf(tool, rest, headers) });
}

function bodyOf(tool: ToolDefinition, rest: [string, unknown][], headers: Headers): { body?: string } {
  const form = tool.http?.body ?? "json";
  if (form === "none" || rest.length === 0) return {};
  if (!headers.has("content-type")) headers.set("content-type", form === "form" ? "application/x-www-form-urlencoded" : "application/json");
  if (form === "form") return { body: new URLSearchParams(rest.map(([name, value]) => [name, textOf(value)])).toString() };
  return { body: JSON.stringify(Object.fromEntries(rest)) };
}

/** Fills the path: an argument is (a part of) one segment, whatever characters it has. */
function fillPath(path: string, input: Record<string, unknown>, used: Set<string>): string {
  const segments = path.split("/").map((segment) => {
    const filled = segment.replaceAll(PLACEHOLDER, (_, name: string) => {
      if (!Object.hasOwn(input, name)) throw new EdgeError("tool_failed", `${name} is missing; the address needs it`);
      used.add(name);
      return encodeURIComponent(textOf(input[name]));
    });
    if (filled !== segment && (filled === "" || filled === "." || filled === "..")) throw new EdgeError("tool_failed", "An argument of the address cannot be empty, . or ..");
    return filled;
  });
  return segments.join("/");
}

/** The pairs of `query` or `headers`; one whose argument was not given is left out. */
function fill(templates: Record<string, string> | undefined, input: Record<string, unknown>, used: Set<string>, secretHere: (name: string) => string): [string, string][] {
  return Object.entries(templates ?? {}).flatMap(([name, template]): [string, string][] => {
    // A value has an argument of the model or a secret, never both.
    if (template.includes("${secret:")) return [[name, template.replaceAll(SECRET, (_, secret: string) => secretHere(secret))]];
    const names = [...template.matchAll(PLACEHOLDER)].map((match) => match[1] ?? "");
    for (const argument of names) used.add(argument);
    if (names.some((argument) => !Object.hasOwn(input, argument))) return [];
    return [[name, template.replaceAll(PLACEHOLDER, (_, argument: string) => textOf(input[argument]))]];
  });
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value ?? null));

function resultOf(tool: ToolDefinition, text: string, mediaType: string): Outcome {
  const pick = tool.http?.pick;
  if (!/json/i.test(mediaType) && pick === undefined) return { result: text.slice(0, RESULT_MAX_CHARACTERS), isError: false };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { result: `${tool.name} expected JSON, and got: ${text.slice(0, ERROR_MAX_CHARACTERS)}`, isError: true };
  }
  for (const part of pick ? pick.split("/").slice(1) : []) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return { result: `The response has nothing at ${pick}: ${text.slice(0, ERROR_MAX_CHARACTERS)}`, isError: true };
    value = (value as Record<string, unknown>)[name];
  }
  return { result: value, isError: false };
}
