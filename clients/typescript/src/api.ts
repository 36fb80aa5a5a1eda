/** API — every operation of the management API as a function. */

import { AgentVMError } from "./errors.ts";
import { type Bytes, content, DEADLINE_MS, type HttpClient } from "./http.ts";
import { ROUTES } from "./operations.ts";
import type { HttpOperations, HttpVerbs } from "./types.ts";
import { nouns } from "./verbs.ts";

export interface CallOptions {
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal;
  /** Another tenant, for operators only, and why its content is read. */
  tenant?: string;
  reason?: string;
  /** The file that the request carries. */
  body?: Bytes;
}

/** The operations by noun: `api.session.search({ q: "cat" })`. */
export function managementApi(http: HttpClient): HttpVerbs {
  return nouns((noun, verb, request, options) =>
    callOperation(http, `${noun}.${verb}` as keyof HttpOperations, (request ?? {}) as never, options as CallOptions | undefined),
  );
}

/** Carries out an operation by its name; its fields go where the route has them. Rejects with `AgentVMError`. */
export async function callOperation<K extends keyof HttpOperations>(
  http: HttpClient,
  operation: K,
  request: HttpOperations[K]["request"],
  options: CallOptions = {},
): Promise<HttpOperations[K]["reply"]> {
  const route = ROUTES[operation];
  if (route === undefined) throw new AgentVMError("unknown_command", `There is no operation ${operation}`);
  const fields: Record<string, unknown> = { ...request };
  const take = (name: string) => {
    const value = fields[name];
    delete fields[name];
    return value;
  };
  const path = route.path.replace(/\{(\w+)(\*?)\}/g, (_, name: string, rest: string) => {
    const value = String(take(name));
    return rest === "" ? encodeURIComponent(value) : value.split("/").map(encodeURIComponent).join("/");
  });
  const hasBody = route.method === "POST" || route.method === "PUT";
  const query = new URLSearchParams();
  for (const name of hasBody ? (route.query ?? []) : Object.keys(fields)) {
    const value = take(name);
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  for (const name of ["tenant", "reason"] as const) if (options[name] !== undefined) query.set(name, options[name]);
  const json = hasBody && options.body === undefined ? JSON.stringify(fields) : undefined;
  const response = await http.fetch(route.method, query.size === 0 ? path : `${path}?${query}`, {
    headers: { ...(json === undefined ? {} : { "Content-Type": "application/json" }), ...options.headers },
    body: options.body ?? json,
    // A stream lasts.
    signal: options.signal ?? (route.bytes === undefined && options.body === undefined ? AbortSignal.timeout(DEADLINE_MS) : undefined),
  });
  return route.bytes === "always" ? (response as HttpOperations[K]["reply"]) : content(response);
}
