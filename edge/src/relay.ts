/** Relay — lets a server run a tool that cannot run here, as the version of its resource that the image was built from. */

import { type Env, nodeKey } from "./env.ts";
import { EdgeError, shorten } from "./errors.ts";
import { readWhole } from "./http_tool.ts";
import type { ToolDefinition } from "./records.ts";
import type { Outcome } from "./turn.ts";

const TIMEOUT_MS = 120_000;
const SYSTEM = "resource://tools/system/";
/** `resource://tools/acme/name@version#tool`; some have no version, and some no tool. */
const VERSIONED = /^(resource:\/\/[^@#]+)(?:@([^#]+))?(?:#(.+))?$/;

interface Invocation {
  output?: { type?: string; value?: unknown; reason?: string };
  error?: { code?: string; message?: string };
}

export async function relay(env: Env, tenant: string, tool: ToolDefinition, input: Record<string, unknown>, isApproved: boolean, signal: AbortSignal): Promise<Outcome> {
  const uri = tool.uri ?? (tool.runtime === "builtin" ? SYSTEM + tool.name : "");
  const [, resource, version, part] = VERSIONED.exec(uri) ?? [];
  if (resource === undefined) throw new EdgeError("tier_unavailable", `The tool ${shorten(tool.name)} is no resource of a server: it cannot be relayed`);
  const headers = { authorization: `Bearer ${nodeKey(env, tenant)}`, "content-type": "application/json" };
  const body = JSON.stringify({ input, ...(version ? { version } : {}), ...(part ? { tool: part } : {}), ...(isApproved ? { approve: true } : {}) });
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(tool.timeoutMs ?? TIMEOUT_MS)]);
  let response: Response;
  let reply: Invocation;
  try {
    response = await fetch(`${env.NODE_URL}/v1/resources/${encodeURIComponent(resource)}/invoke`, { method: "POST", headers, body, redirect: "manual", signal: deadline });
    reply = JSON.parse(await readWhole(response)) as Invocation;
  } catch (error) {
    if (signal.aborted || error instanceof EdgeError) throw error;
    throw new EdgeError("tool_failed", "The server that runs this tool cannot be reached, or did not answer in time");
  }
  if (!response.ok) return { result: `${reply.error?.code ?? "tool_failed"}: ${reply.error?.message ?? `the server answered with status ${response.status}`}`, isError: true };
  return outcomeOf(reply.output ?? {});
}

function outcomeOf({ type = "", value, reason }: NonNullable<Invocation["output"]>): Outcome {
  if (type === "execution-denied") return { result: reason ?? value ?? "Not made: it was denied.", isError: false, denied: true };
  return { result: value ?? null, isError: type.startsWith("error") };
}
