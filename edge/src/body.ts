/** Body — what is stored of a turn: its messages and its events. Packed and unpacked by Workers, never by the object. */

import type { Usage } from "../../clients/typescript/src/types.ts";
import type { Packed } from "./events.ts";
import type { StoredTurn } from "./records.ts";
import type { Message } from "./turn.ts";

export interface Body {
  /** The user's message first. */
  messages: Message[];
  events: Packed[];
  /** The number of the first event. */
  first?: number;
  /** Messages made so far; ids are counted by it. */
  produced?: number;
  usage?: Usage;
  /** Calls that have begun: without a result it is not known whether they took effect. */
  started?: string[];
}

/** Below this a body is stored as it is. */
const PLAIN_MAX_CHARACTERS = 600;
/** The longest row that the platform stores is 2 MB. */
export const BODY_MAX_BYTES = 1_900_000;

export async function pack(body: Body): Promise<string | ArrayBuffer> {
  const text = JSON.stringify(body);
  if (text.length <= PLAIN_MAX_CHARACTERS) return text;
  return await through(text, new CompressionStream("gzip"));
}

export async function unpack(body: string | ArrayBuffer): Promise<Body> {
  const text = typeof body === "string" ? body : new TextDecoder().decode(await through(body, new DecompressionStream("gzip")));
  return JSON.parse(text) as Body;
}

/** The messages of stored turns, in order. */
export async function messagesOf(turns: readonly StoredTurn[]): Promise<Message[]> {
  const bodies = await Promise.all(turns.map(async (turn) => await unpack(turn.body)));
  return bodies.flatMap((body) => body.messages);
}

export const sizeOf = (body: string | ArrayBuffer): number => (typeof body === "string" ? body.length : body.byteLength);

async function through(data: string | ArrayBuffer, stream: CompressionStream | DecompressionStream): Promise<ArrayBuffer> {
  return await new Response(new Response(data).body?.pipeThrough(stream)).arrayBuffer();
}
