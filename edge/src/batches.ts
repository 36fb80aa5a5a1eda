/** Batches — what is told of containers, images and agents, and of a turn that nobody runs any more. */

import type { UserMessage } from "../../clients/typescript/src/types.ts";
import { BODY_MAX_BYTES, pack, sizeOf, unpack } from "./body.ts";
import { type Batch, type Numbered, packEvents, tell, type Told, unpackEvents } from "./events.ts";
import type { FoldRequest, Image } from "./records.ts";
import type { TurnRow } from "./store.ts";
import { Turn } from "./turn.ts";

const LOST = "The turn was cut off twice, and is not begun a third time: send the message again";
const LOST_CALL = "The call began, or was about to, and its end is not known.";

/** Events that have no place in the order of a session. */
const unnumbered = (scope: Batch["scope"], ...events: Told[]): Batch => ({ scope, events: events.map((event) => ({ ...event, seq: 0 })) });

export function containerBatch(containerId: string, createdAt: number): Batch {
  return unnumbered({ containerId }, tell("container_created", { containerId, createdAt }, createdAt));
}

export function deletedBatch({ imageId, containerId }: Image): Batch {
  const data = { imageId, containerId };
  return unnumbered(data, tell("image_deleted", data, Date.now()));
}

export function scopeOf(image: Image): { containerId: string; imageId: string; sessionId: string; agentId?: string } {
  const { containerId, imageId, sessionId, agentId } = image;
  return { containerId, imageId, sessionId, ...(agentId === undefined ? {} : { agentId }) };
}

/** What is told of an agent that has started. */
export function registeredBatch(image: Image, agentId: string): Batch {
  const { containerId, imageId, sessionId, name } = image;
  const at = Date.now();
  const data = { containerId, agentId, definitionName: name, registeredAt: at, imageId, sessionId };
  return unnumbered({ containerId, agentId }, tell("agent_registered", data, at));
}

/** What is told of an agent that has stopped. */
export function stoppedBatch(image: Image): Batch {
  const { containerId, imageId, sessionId, agentId = "" } = image;
  const at = Date.now();
  return unnumbered(
    scopeOf(image),
    tell("session_destroyed", { sessionId, agentId, containerId }, at),
    tell("agent_unregistered", { containerId, agentId, imageId, sessionId }, at),
  );
}

/** What is told of a turn that begins; it follows from what is stored of it, so a new run tells the same again. */
export function opening(image: Image, turnId: string, user: UserMessage, at: number, isQueued: boolean): Told[] {
  const persisted = tell("message_persisted", { sessionId: image.sessionId, messageId: user.id, savedAt: at }, at);
  return [...(isQueued ? [] : [persisted]), tell("user_message", user, at), tell("turn_request", { turnId, messageId: user.id, timestamp: at }, at)];
}

/** The end of a turn that nobody will run: it was taken back, or its image was deleted. */
export function droppedBatch(row: TurnRow, image: Image): Batch {
  const { id } = JSON.parse(row.user) as { id: string };
  return unnumbered({ ...scopeOf(image), turnId: row.turn_id }, ...new Turn(row.turn_id, id, row.accepted_at).interrupt(Date.now()));
}

/** What is told that a turn goes on. It also stands for each number that a lost run may have told, and nobody knows what. */
export function resumed(turnId: string, messageId: string, attempt: number, at: number): Told {
  return tell("turn_resumed", { turnId, messageId, attempt, timestamp: at }, at);
}

/** The end of a turn that has no Worker: it was cut off too often, or is interrupted. */
export async function lostTurn(row: TurnRow, image: Image, at: number, outcome: "failed" | "interrupted"): Promise<{ fold: FoldRequest; batch: Batch }> {
  const before = row.body === null ? undefined : await unpack(row.body);
  const user = (before?.messages[0] ?? JSON.parse(row.user)) as UserMessage;
  const turn = new Turn(row.turn_id, user.id, row.accepted_at);
  if (before !== undefined) turn.restore(before.messages.slice(1), before.produced ?? 0, before.usage);
  const numbered = (told: readonly Told[], last: number): Numbered[] => told.map((event, index): Numbered => ({ ...event, seq: last + 1 + index }));
  const earlier = before === undefined ? numbered(opening(image, row.turn_id, user, row.accepted_at, false), row.first_seq) : unpackEvents(before.events, before.first ?? 0);
  const known = earlier.at(-1)?.seq ?? row.last_seq;
  const unknown = numbered(Array.from({ length: Math.max(0, row.last_seq - known) }, () => resumed(row.turn_id, user.id, row.attempt, at)), known);
  const lostCalls = [...turn.pending].flatMap((call) => turn.finish(call, { result: LOST_CALL, isError: true }, at));
  const interrupted = tell("interrupted", { agentId: image.agentId ?? "", containerId: image.containerId, turnId: row.turn_id }, at);
  const ended = outcome === "failed" ? turn.fail("turn_limit_reached", LOST, true, at) : [interrupted, ...turn.interrupt(at)];
  const end = numbered([...lostCalls, ...ended], Math.max(known, row.last_seq));
  const told = [...earlier, ...unknown, ...end];
  const body = { messages: [user, ...turn.messages], events: packEvents(earlier.length > 0 ? told : []), first: told[0]?.seq ?? 0, produced: turn.produced, usage: turn.usage };
  const whole = await pack(body);
  const { session_id: sessionId, n, turn_id: turnId, attempt, runner } = row;
  const stored = sizeOf(whole) <= BODY_MAX_BYTES ? whole : await pack({ ...body, events: [] });
  const fold: FoldRequest = { sessionId, n, turnId, attempt, runner, state: "ended", lastSeq: end.at(-1)?.seq ?? row.last_seq, body: stored, waits: [], entries: [] };
  // All of it: who has come since the crash has heard nothing yet, and peers pass over what they have heard.
  return { fold, batch: { scope: { ...scopeOf(image), turnId }, events: told } };
}
