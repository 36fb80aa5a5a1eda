/**
 * Dialect 2.x — JSON-RPC 2.0 as clients of AgentX 2.x speak it.
 *
 * `message.send` is answered when its turn has ended, after the last event of the turn; or, since clients wait 30 seconds, after
 * 25 with the status `running`. A message that is refused is told by an `error` event too: clients show no other failure.
 */

import { type EdgeError, invalid, shorten, tooLarge, visible } from "./errors.ts";
import type { Batch } from "./events.ts";
import { instanceOf } from "./ids.ts";
import { bytesOf, type Data, DATA_MAX_BYTES, isObject, MESSAGE_MAX_BYTES } from "./input.ts";
import type { Peer } from "./peer.ts";
import { EventWriter } from "./v2_events.ts";
import { METHODS, sendMessage } from "./v2_methods.ts";

const BATCH_MAX = 64;
const ID_MAX = 1_000;
const SEND_MS = 25_000;
const SENDS_MAX = 1_000;
const PARSE_ERROR = -32700;
const INVALID_REQUEST = -32600;
const METHOD_NOT_FOUND = -32601;
const INVALID_PARAMS = -32602;
const SERVER_ERROR = -32000;
const CODES: Record<string, number> = {
  invalid_input: INVALID_PARAMS, input_too_large: INVALID_PARAMS, unauthenticated: 401, access_denied: 403, container_forbidden: 403,
  image_not_found: 404, agent_not_found: 404, definition_not_found: 404, tool_not_found: 404, driver_not_found: 404, not_found: 404,
  not_available: METHOD_NOT_FOUND,
};

type RpcId = string | number;

interface Send {
  id: RpcId;
  result: Data;
  timer: ReturnType<typeof setTimeout>;
}

export class RpcPeer {
  #write: (text: string) => void;
  #events = new EventWriter();
  #sends = new Map<string, Send[]>();

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  /** The headers that a frame brings as credentials; undefined if it brings none. */
  credentials(frame: unknown): unknown {
    const calls: unknown[] = Array.isArray(frame) ? frame : [frame];
    const auth = calls.find((call): call is Data => isObject(call) && call.method === "auth" && call.id === undefined);
    return auth === undefined ? undefined : isObject(auth.params) ? (auth.params.headers ?? {}) : {};
  }

  async receive(peer: Peer, frame: unknown): Promise<void> {
    if (!Array.isArray(frame)) return await this.#answer(peer, frame);
    if (frame.length > BATCH_MAX) return this.#problem(null, INVALID_REQUEST, `A batch has at most ${BATCH_MAX} requests`);
    for (const call of frame) await this.#answer(peer, call);
  }

  refusal(error: EdgeError): string {
    // What is no JSON, or none that could be a request.
    if (error.code === "invalid_input") return JSON.stringify({ id: null, error: { code: PARSE_ERROR, message: error.message }, jsonrpc: "2.0" });
    return JSON.stringify({ id: null, error: problemOf(error), jsonrpc: "2.0" });
  }

  tell(batch: Batch): void {
    for (const event of batch.events) {
      for (const text of this.#events.write(batch.scope, event)) this.#write(text);
      if (event.type === "turn_response") this.#ended(event.data.turnId);
    }
  }

  async #answer(peer: Peer, call: unknown): Promise<void> {
    if (!isObject(call) || call.jsonrpc === undefined) return this.#problem(null, INVALID_REQUEST, "A request is an object with jsonrpc, id and method");
    const id = idOf(call.id);
    const { method } = call;
    if (method === undefined || method === null) {
      // A response to a request that was not made: two servers could answer each other for ever.
      return call.id === undefined ? this.#problem(null, INVALID_REQUEST, "A request has a method") : undefined;
    }
    if (typeof method !== "string" || method === "" || method.length > ID_MAX) return this.#problem(id ?? null, INVALID_REQUEST, "method is a text that is not empty");
    if (call.id !== undefined && id === undefined) return this.#problem(null, INVALID_REQUEST, "id is a text that is not empty, or an integer below 2^53");
    const params = call.params ?? {};
    if (!isObject(params)) return this.#problem(id ?? null, INVALID_PARAMS, "params is an object");
    if (id !== undefined) await this.#call(peer, id, method, params);
  }

  async #call(peer: Peer, id: RpcId, method: string, params: Data): Promise<void> {
    try {
      const most = method === "message.send" ? MESSAGE_MAX_BYTES : DATA_MAX_BYTES;
      const size = bytesOf(JSON.stringify(params));
      if (size > most) throw tooLarge(`The params of ${shorten(method)} have ${size.toLocaleString("en-US")} bytes; at most ${most.toLocaleString("en-US")} are allowed`);
      if (method === "message.send") await this.#send(peer, id, params);
      else if (!Object.hasOwn(METHODS, method)) this.#problem(id, METHOD_NOT_FOUND, `Method not found: ${shorten(method)}`);
      else this.#result(id, await METHODS[method]?.(peer, params));
      peer.replied();
    } catch (error) {
      const known = visible(error);
      if (method === "message.send") this.#sendFailed(known, params);
      this.#write(JSON.stringify({ id, error: problemOf(known), jsonrpc: "2.0" }));
    }
  }

  async #send(peer: Peer, id: RpcId, params: Data): Promise<void> {
    if (params.content === undefined || params.content === null) throw invalid("content is required: a text, or a list of parts");
    const reply = await sendMessage(peer, params);
    const result = { instanceId: instanceOf(reply.agentId), imageId: reply.image.imageId, turnId: reply.turnId };
    if (this.#sends.size >= SENDS_MAX) return this.#result(id, { ...result, status: "running" });
    const timer = setTimeout(() => this.#giveUp(reply.turnId, id), SEND_MS);
    this.#sends.set(reply.turnId, [...(this.#sends.get(reply.turnId) ?? []), { id, result, timer }]);
  }

  #giveUp(turnId: string, id: RpcId): void {
    const waiting = this.#sends.get(turnId) ?? [];
    const send = waiting.find((other) => other.id === id);
    const rest = waiting.filter((other) => other !== send);
    if (rest.length > 0) this.#sends.set(turnId, rest);
    else this.#sends.delete(turnId);
    if (send !== undefined) this.#result(id, { ...send.result, status: "running" });
  }

  #ended(turnId: string): void {
    for (const send of this.#sends.get(turnId) ?? []) {
      clearTimeout(send.timer);
      this.#result(send.id, { ...send.result, status: "completed" });
    }
    this.#sends.delete(turnId);
  }

  #sendFailed(error: EdgeError, { imageId, instanceId, agentId }: Data): void {
    const named = [instanceId, agentId, imageId].find((id) => typeof id === "string" && id !== "") as string | undefined;
    // An event without an instance would be taken for one of every conversation.
    if (named === undefined) return;
    const context = { instanceId: named.replace(/^(img|agent)_/, "inst_"), imageId };
    const told = { type: "error", source: "runtime", category: "error", intent: "notification", context, timestamp: Date.now() };
    const event = { ...told, data: { message: error.message, errorCode: error.code } };
    this.#write(JSON.stringify({ jsonrpc: "2.0", method: "stream.event", params: { topic: "global", event } }));
  }

  #result(id: RpcId, result: unknown): void {
    this.#write(JSON.stringify({ id, result: result ?? null, jsonrpc: "2.0" }));
  }

  #problem(id: RpcId | null, code: number, message: string): void {
    this.#write(JSON.stringify({ id, error: { code, message }, jsonrpc: "2.0" }));
  }
}

function problemOf(error: EdgeError): { code: number; message: string; data: { code: string } } {
  return { code: CODES[error.code] ?? SERVER_ERROR, message: error.message, data: { code: error.code } };
}

function idOf(id: unknown): RpcId | undefined {
  if (typeof id === "string") return id === "" || id.length > ID_MAX ? undefined : id;
  return typeof id === "number" && Number.isSafeInteger(id) ? id : undefined;
}
