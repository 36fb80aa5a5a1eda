/** Batches — what is told of containers, images and agents, and of a turn that nobody runs any more. */

import { type Batch, type Numbered, packEvents, tell, type Told } from "./events.ts";
import type { FoldRequest, Image } from "./records.ts";
import type { TurnRow } from "./store.ts";
import { Turn } from "./turn.ts";

const LOST = "The turn was cut off twice, and is not begun a third time: send the message again";

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
  const { containerId, imageId, name } = image;
  const at = Date.now();
  const data = { containerId, agentId, definitionName: name, registeredAt: at, imageId };
  return unnumbered({ containerId, agentId }, tell("agent_registered", data, at));
}

/** What is told of an agent that has stopped. */
export function stoppedBatch(image: Image): Batch {
  const { containerId, imageId, sessionId, agentId = "" } = image;
  const at = Date.now();
  return unnumbered(
    scopeOf(image),
    tell("session_destroyed", { sessionId, agentId, containerId }, at),
    tell("agent_unregistered", { containerId, agentId, imageId }, at),
  );
}

/** The end of a turn that was cut off too often. */
export function lostTurn(row: TurnRow, image: Image, lastSeq: number, at: number): { fold: FoldRequest; batch: Batch } {
  const user = JSON.parse(row.user) as { id: string };
  const turn = new Turn(row.turn_id, user.id, row.accepted_at);
  let seq = lastSeq;
  const events: Numbered[] = turn.fail("turn_limit_reached", LOST, true, at).map((event) => ({ ...event, seq: ++seq }));
  const body = JSON.stringify({ messages: [user, ...turn.messages], events: packEvents(events), first: lastSeq + 1, produced: turn.produced });
  const { session_id: sessionId, n, turn_id: turnId, attempt, runner } = row;
  const fold: FoldRequest = { sessionId, n, turnId, attempt, runner, state: "ended", lastSeq: seq, body, waits: [], entry: "" };
  return { fold, batch: { scope: { ...scopeOf(image), turnId }, events } };
}
