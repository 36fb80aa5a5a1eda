/** Replay — what a client has missed of a session since a cursor, and then what comes. */

import { unpack } from "./body.ts";
import { scopeOf } from "./batches.ts";
import { tell, unpackEvents } from "./events.ts";
import type { Peer } from "./peer.ts";

/** Hears a session; with a cursor, from the event after it on. A session of somebody else is passed over in silence. */
export async function replay(peer: Peer, sessionId: string, after: number | null): Promise<void> {
  const link = await peer.linkTo(sessionId);
  if (link === undefined) return;
  if (after === null) return peer.listen(link, sessionId);
  const { image, turns, lastSeq, reservedSeq } = await link.stub.after(sessionId, after);
  if (image === undefined) return;
  if (!peer.subscribe(sessionId)) return;
  peer.heardUpTo(sessionId, after);
  if (after > reservedSeq) {
    // A cursor that the session has never had: of another deployment, or invented.
    peer.heardUpTo(sessionId, lastSeq);
    peer.tellOf(image, tell("resync_required", { sessionId, cursor: String(lastSeq) }, Date.now()));
  }
  let heard = Math.min(after, lastSeq);
  for (const turn of turns) {
    const body = await unpack(turn.body);
    const events = unpackEvents(body.events, body.first ?? turn.firstSeq + 1).filter(({ seq }) => seq > heard);
    // Events are missing that were too many to be stored, or that were taken back: the history has what is left of them.
    const from = (events[0]?.seq ?? turn.lastSeq + 1) - 1;
    if (from > heard) {
      peer.tellOf(image, tell("resync_required", { sessionId, cursor: String(from) }, Date.now()));
      peer.heardUpTo(sessionId, from);
    }
    peer.deliver({ scope: { ...scopeOf(image), turnId: turn.turnId }, events });
    heard = Math.max(heard, turn.lastSeq);
  }
  peer.listen(link, sessionId, Math.max(after, turns.at(-1)?.lastSeq ?? 0));
}
