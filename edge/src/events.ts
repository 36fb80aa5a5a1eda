/** Events — what is told of a container, in the words of the one catalogue; numbered, encoded and packed here. */

import type { Events, Scope } from "../../clients/typescript/src/types.ts";

export type EventType = keyof Events;

/** One event before it has its place in the session. */
export type Told = { [K in EventType]: { type: K; data: Events[K]; at: number } }[EventType];

/** An event with its number in the session; 0 for one that belongs to no session. */
export type Numbered = Told & { seq: number };

/** Events of one scope, as they go from a Worker to the others by way of the object. */
export interface Batch {
  scope: Scope;
  events: Numbered[];
}

export function tell<K extends EventType>(type: K, data: Events[K], at: number): Told {
  return { type, data, at } as unknown as Told;
}

type Kind = readonly [source: string, category: string, intent?: string];

const STREAM: Kind = ["agent", "stream"];
const MESSAGE: Kind = ["agent", "message"];
const STATE: Kind = ["agent", "state"];
const TURN: Kind = ["agent", "turn"];
const CONTAINER: Kind = ["container", "lifecycle"];
const SESSION: Kind = ["session", "lifecycle"];

/** Source, category and intent of events; state events of the agent are not listed. */
const KINDS: Partial<Record<EventType, Kind>> = {
  message_start: STREAM,
  message_delta: STREAM,
  message_stop: STREAM,
  text_delta: STREAM,
  thinking_delta: STREAM,
  tool_use_start: STREAM,
  input_json_delta: STREAM,
  tool_use_stop: STREAM,
  tool_result: STREAM,
  user_message: MESSAGE,
  assistant_message: MESSAGE,
  tool_call_message: MESSAGE,
  tool_result_message: MESSAGE,
  error_message: MESSAGE,
  turn_request: TURN,
  turn_response: TURN,
  turn_parked: TURN,
  turn_resumed: TURN,
  message_persisted: ["session", "persist", "result"],
  interrupted: ["agent", "lifecycle"],
  container_created: CONTAINER,
  image_created: CONTAINER,
  image_updated: CONTAINER,
  image_deleted: CONTAINER,
  agent_registered: CONTAINER,
  agent_unregistered: CONTAINER,
  session_destroyed: SESSION,
  session_rewound: SESSION,
  resync_required: SESSION,
  system_error: ["command", "error"],
};

export const kindOf = (type: EventType): Kind => KINDS[type] ?? STATE;

/** The pieces of an answer: most of all events, and packed as one text with the lengths of its pieces. */
const PIECES: Partial<Record<EventType, string>> = { text_delta: "text", thinking_delta: "text", input_json_delta: "partialJson" };

type Packed = [type: EventType, at: number, data: unknown] | [type: EventType, at: number, text: string, lengths: number[]];

/** Events of consecutive numbers in the form that is stored. */
export function packEvents(events: readonly Numbered[]): Packed[] {
  const packed: Packed[] = [];
  for (const event of events) {
    const member = PIECES[event.type];
    if (member === undefined) {
      packed.push([event.type, event.at, event.data]);
      continue;
    }
    const text = (event.data as Record<string, string>)[member] ?? "";
    const last = packed.at(-1);
    if (last !== undefined && last.length === 4 && last[0] === event.type) {
      last[2] += text;
      last[3].push(text.length);
    } else packed.push([event.type, event.at, text, [text.length]]);
  }
  return packed;
}

/** The events of a stored form; the first has the number `first`. */
export function unpackEvents(packed: readonly Packed[], first: number): Numbered[] {
  const events: Numbered[] = [];
  const push = (type: EventType, at: number, data: unknown): void => {
    events.push({ type, at, data, seq: first + events.length } as unknown as Numbered);
  };
  for (const entry of packed) {
    if (entry.length === 3) {
      push(entry[0], entry[1], entry[2]);
      continue;
    }
    const [type, at, text, lengths] = entry;
    let start = 0;
    for (const length of lengths) {
      push(type, at, { [PIECES[type] ?? "text"]: text.slice(start, start + length) });
      start += length;
    }
  }
  return events;
}

export type { Packed };
