/**
 * Tools — what the agent of an image can call here: HTTP requests, tools of the client and of the model's provider.
 *
 * Others need a machine. A server that runs them can be named (`NODE_URL`); else the model is told that no tier can run them.
 */

import { type Env, toolSecret } from "./env.ts";
import { EdgeError, shorten, visible } from "./errors.ts";
import { tell, type Told } from "./events.ts";
import { callHttp } from "./http_tool.ts";
import { newId, placeIn, sha256 } from "./ids.ts";
import type { ToolSpec } from "./providers/prompt.ts";
import { decide, type Verdict } from "./policy.ts";
import { relay } from "./relay.ts";
import type { Image, ToolDefinition, Wait, WaitAnswer, World } from "./records.ts";
import type { Call, Message, Outcome } from "./turn.ts";

const LOST = "The call began, and its end is not known: the Worker that made it is gone. It may have taken effect; look before you repeat it.";
const DECISIONS = { approval: ["approve", "edit", "deny"], client: ["answer", "deny"] } as const;
/** Runtimes whose tools are open unless their author says otherwise. */
const OPEN: ReadonlySet<string> = new Set(["http", "openapi", "mcp", "provider"]);

export class Tools {
  #env: Env;
  #tools: Map<string, ToolDefinition>;
  #image: Image;
  #tenant: string;

  constructor(env: Env, tools: readonly ToolDefinition[], image: Image, tenant: string) {
    this.#tenant = tenant;
    this.#env = env;
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.#image = image;
  }

  /** The tools that the model is told of, besides those of its provider. */
  get specs(): ToolSpec[] {
    return [...this.#tools.values()]
      .filter((tool) => tool.runtime !== "provider")
      .map(({ name, description, inputSchema }) => ({ name, description, inputSchema: inputSchema ?? { type: "object" } }));
  }

  /** Those that may be called without an approval: the provider asks for none. */
  ofProvider(isTainted: boolean): Record<string, unknown>[] {
    return [...this.#tools.values()]
      .filter((tool) => tool.runtime === "provider" && tool.entry !== undefined && this.#verdict(tool, {}, isTainted).do === "allow")
      .map((tool) => ({ ...tool.options, type: tool.entry?.split("/")[1], name: tool.entry?.split("/")[1]?.replace(/_\d{8}$/, "") }));
  }

  /** Whether a stranger's text is among messages: a result of a tool that reaches beyond this Worker and its servers. */
  isForeign(messages: readonly Message[]): boolean {
    return messages.some((message) => {
      if (message.subtype !== "tool-result" || message.toolResult.output.type === "execution-denied") return false;
      const tool = this.#tools.get(message.toolResult.name);
      // Of a tool that is gone, or a server's own, it is not known.
      return tool === undefined || tool.runtime === "builtin" || worldOf(tool) === "open";
    });
  }

  /** What the rules say about a call; a call of no tool fails by itself, with a text that helps the model. */
  verdict(name: string, input: Record<string, unknown>, isTainted: boolean): Verdict {
    const tool = this.#tools.get(name);
    return tool === undefined ? { do: "allow", why: "" } : this.#verdict(tool, input, isTainted);
  }

  #verdict(tool: ToolDefinition, input: Record<string, unknown>, tainted: boolean): Verdict {
    const { name, runtime, effect = "write", ask = false } = tool;
    return decide({ tool: name, runtime, effect, world: worldOf(tool), tainted, asks: ask, input }, this.#image.definition.policy ?? []);
  }

  /** Who a call waits for, if it does. */
  waitsFor(call: Call, isTainted: boolean): Wait["kind"] | undefined {
    const verdict = this.verdict(call.name, call.input, isTainted).do;
    if (verdict === "deny") return undefined;
    if (this.#tools.get(call.name)?.runtime === "client") return "client";
    return verdict === "ask" ? "approval" : undefined;
  }

  /** Whether a call does no harm when it is made again. */
  mayRepeat(name: string): boolean {
    const tool = this.#tools.get(name);
    if (tool === undefined || tool.runtime === "client") return true;
    return (tool.repeat ?? (tool.effect === "read" ? "safe" : "never")) !== "never";
  }

  async hold(call: Call, isTainted: boolean, waitMs: number): Promise<Wait> {
    const kind = this.waitsFor(call, isTainted) ?? "approval";
    const { why, expiresMs } = this.verdict(call.name, call.input, isTainted);
    const waitId = newId("wait", placeIn(this.#image.imageId) ?? "");
    const at = Date.now();
    return { waitId, callId: call.id, toolName: call.name, kind, input: call.input, fingerprint: await fingerprint(call), why, askedAt: at, expiresAt: at + (expiresMs ?? waitMs) };
  }

  waiting(wait: Wait, turnId: string, at: number): Told {
    const { waitId, callId, toolName, kind, input, expiresAt } = wait;
    const decisions = [...DECISIONS[kind]];
    return tell(
      "tool_waiting",
      { waitId, turnId, toolId: callId, toolName, kind, input, fingerprint: wait.fingerprint, decisions, why: wait.why ?? "", audience: "sender", expiresAt },
      at,
    );
  }

  answered(wait: Wait, turnId: string, at: number): Told[] {
    const { waitId, callId, toolName, answer } = wait;
    if (answer === undefined) return [];
    const about = { waitId, turnId, toolId: callId, toolName };
    if (answer.decision === "expired") return [tell("tool_wait_expired", about, at)];
    return [tell("tool_answered", { ...about, decision: answer.decision, ...(answer.reason ? { reason: answer.reason } : {}) }, at)];
  }

  /** The outcome of a call: an error is one for the model, never for the turn. */
  async run(call: Call, answer: WaitAnswer | undefined, isTainted: boolean, began: boolean, signal: AbortSignal): Promise<Outcome> {
    if (call.problem !== undefined) return { result: call.problem, isError: true };
    if (answer?.decision === "deny") return { result: answer.reason ?? "Not made: it was denied.", isError: false, denied: true };
    if (answer?.decision === "expired") return { result: "Not made: nobody answered in time.", isError: false, denied: true };
    if (answer?.decision === "answer") return { result: answer.result ?? null, isError: false };
    const tool = this.#tools.get(call.name);
    if (tool === undefined) return { result: `There is no tool ${shorten(call.name)}; there are ${[...this.#tools.keys()].join(", ") || "none"}`, isError: true };
    if (began && !this.mayRepeat(call.name)) return { result: LOST, isError: true };
    const input = answer?.decision === "edit" ? (answer.input ?? {}) : call.input;
    const verdict = this.verdict(call.name, input, isTainted);
    if (verdict.do === "deny") return { result: `The call was denied: ${verdict.why}`, isError: false, denied: true };
    try {
      return await this.#call(tool, input, `${this.#image.sessionId}:${call.id}`, answer !== undefined, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const known = visible(error);
      return { result: `${known.code}: ${known.message}`, isError: true };
    }
  }

  async #call(tool: ToolDefinition, input: Record<string, unknown>, key: string, isApproved: boolean, signal: AbortSignal): Promise<Outcome> {
    if (tool.runtime === "http") {
      const secretOf = (name: string, host: string): string => toolSecret(this.#env, this.#tenant, name, host);
      return await callHttp(tool, input, key, (this.#env.ALLOW_HOSTS ?? "").split(","), secretOf, signal);
    }
    if (tool.inSandbox) throw new EdgeError("tier_unavailable", `The tool ${tool.name} runs in the sandbox of its agent, which the edge does not have: run the agent on a server`);
    if (this.#env.NODE_URL) return await relay(this.#env, this.#tenant, tool, input, isApproved, signal);
    throw new EdgeError("tier_unavailable", `The tool ${tool.name} is of the runtime ${tool.runtime}, which the edge has no tier for: run its agent on a server, or set NODE_URL`);
  }
}

const worldOf = ({ world, runtime }: ToolDefinition): World => world ?? (OPEN.has(runtime) ? "open" : "closed");

/** Binds an answer to the very call that waits. */
async function fingerprint(call: Call): Promise<string> {
  return `sha256:${await sha256(new TextEncoder().encode(JSON.stringify([call.id, call.name, call.input])))}`;
}
