/** Commands — what a client can ask for, each a function over the objects that its peer reaches. Both dialects use them. */

import { messagesOf } from "./body.ts";
import { containerBatch, deletedBatch, registeredBatch, stoppedBatch } from "./batches.ts";
import { EdgeError, agentNotFound, imageNotFound, invalid, shorten } from "./errors.ts";
import { tell } from "./events.ts";
import { changed, cleared, clientDataOf, createdBatch, digestOf, newImage, storable, updatedBatch } from "./images.ts";
import { placeIn, random, type Place } from "./ids.ts";
import { contentOf, type Data, objectOf, optionalText, refuseGiven, text } from "./input.ts";
import type { Link } from "./link.ts";
import type { Peer } from "./peer.ts";
import type { AcceptReply, AcceptRequest, Image, Refused, WaitAnswer } from "./records.ts";
import type { Message } from "./turn.ts";

const HISTORY_MAX_BYTES = 4 * 1024 * 1024;
const PAGE_MAX = 500;
/** Containers whose images are listed for a client that names none. */
const LISTED_MAX = 50;

interface Found {
  link: Link;
  image: Image;
}

// --- finding

export async function findImage(peer: Peer, imageId: string): Promise<Found | undefined> {
  const link = await peer.linkTo(imageId);
  const image = await link?.stub.image(imageId);
  return link === undefined || image === undefined ? undefined : { link, image };
}

export async function imageOf(peer: Peer, imageId: string): Promise<Found> {
  const found = await findImage(peer, imageId);
  if (found === undefined) throw imageNotFound(imageId);
  return found;
}

export async function findAgent(peer: Peer, agentId: string): Promise<(Found & { state: string; queued: number }) | undefined> {
  const link = await peer.linkTo(agentId);
  const found = await link?.stub.agent(agentId);
  return link === undefined || found === undefined ? undefined : { link, ...found };
}

// --- containers

/** The link to a container, which is made if there is none. */
export async function ensureContainer(peer: Peer, name: unknown): Promise<{ containerId: string; place: Place; link: Link }> {
  const place = await peer.principal.place(name);
  const containerId = name as string;
  const link = await peer.link(place);
  peer.joined.add(containerId);
  const { isNew, createdAt } = await link.stub.create(containerId, peer.principal.object(place), peer.id);
  if (isNew) {
    if (peer.principal.containers === undefined) await peer.env.CONTAINERS.getByName(peer.principal.directory).enlist(containerId);
    peer.deliver(containerBatch(containerId, createdAt));
  }
  return { containerId, place, link };
}

export async function listContainers(peer: Peer, after = "", limit = PAGE_MAX): Promise<string[]> {
  const own = peer.principal.containers;
  if (own === undefined) return await peer.env.CONTAINERS.getByName(peer.principal.directory).containers(after, limit);
  const following = own.filter((name) => name > after).sort((one, other) => (one < other ? -1 : 1));
  const present: string[] = [];
  // As many at a time as are wanted: each is a request.
  while (following.length > 0 && present.length < limit) {
    const asked = following.splice(0, limit);
    const exist = await Promise.all(asked.map(async (name) => await peer.env.CONTAINERS.getByName(peer.principal.object(await peer.principal.place(name))).exists()));
    present.push(...asked.filter((_, index) => exist[index]));
  }
  return present.slice(0, limit);
}

/** The containers of a list about all of them. */
async function allContainers(peer: Peer): Promise<string[]> {
  const names = await listContainers(peer, "", LISTED_MAX + 1);
  if (names.length > LISTED_MAX) throw invalid(`There are more than ${LISTED_MAX} containers: name one of them with containerId`);
  return names;
}

// --- images

export async function createImage(peer: Peer, containerName: unknown, config: Data): Promise<Image> {
  const place = await peer.principal.place(containerName);
  const image = await newImage(peer.env, peer.principal.tenant, containerName as string, peer.newId("img", place), peer.newId("sess", place), config);
  const { link } = await ensureContainer(peer, containerName);
  const batch = createdBatch(image);
  await link.stub.putImage(image, batch, peer.id);
  peer.deliver(batch);
  peer.listen(link, image.sessionId);
  return image;
}

export async function updateImage(peer: Peer, imageId: string, updates: Data): Promise<Image> {
  const { link, image: before } = await imageOf(peer, imageId);
  const image = cleared(before, updates.clear);
  const definition = changed(peer.env, image.definition, updates);
  const description = optionalText(updates, "description") ?? image.description;
  const clientData = clientDataOf(updates) ?? image.clientData;
  const updated = storable({
    ...image,
    name: optionalText(updates, "name") ?? image.name, definition, digest: await digestOf(definition), updatedAt: Math.max(Date.now(), image.updatedAt + 1),
    ...(description === undefined ? {} : { description }),
    ...(clientData === undefined ? {} : { clientData }),
  });
  const batch = updatedBatch(updated);
  await link.stub.putImage(updated, batch, peer.id);
  peer.deliver(batch);
  return updated;
}

export async function listImages(peer: Peer, containerName: unknown): Promise<Image[]> {
  // Never everybody's: the one that the key is for, or those that this connection has named.
  const unnamed = peer.principal.containers === undefined ? [...peer.joined] : [peer.principal.home];
  const names = containerName === undefined || containerName === null ? unnamed : [containerName];
  const lists = await Promise.all(
    names.map(async (name) => {
      const link = await peer.link(await peer.principal.place(name));
      peer.joined.add(name as string);
      const images = await link.stub.images();
      for (const image of images) peer.listen(link, image.sessionId);
      return images;
    }),
  );
  return lists.flat().sort((one, other) => other.createdAt - one.createdAt);
}

export async function deleteImage(peer: Peer, imageId: string): Promise<void> {
  const found = await findImage(peer, imageId);
  if (found === undefined) return;
  await stop(peer, found.link, [imageId]);
  const image = await found.link.stub.deleteImage(imageId, peer.id);
  if (image !== undefined) peer.deliver(deletedBatch(image));
}

export async function history(found: Found): Promise<Message[]> {
  return await messagesOf(await found.link.stub.history(found.image.sessionId, HISTORY_MAX_BYTES));
}

// --- agents

export async function runImage(peer: Peer, imageId: string): Promise<{ image: Image; agentId: string; reused: boolean }> {
  const link = await peer.linkTo(imageId);
  const started = await link?.stub.startAgent(imageId, peer.newId("agent", placeIn(imageId) ?? ""), peer.id);
  if (link === undefined || started === undefined) throw imageNotFound(imageId);
  const { image, reused } = started;
  peer.listen(link, image.sessionId);
  if (!reused) peer.deliver(registeredBatch(image, image.agentId ?? ""));
  return { image, agentId: image.agentId ?? "", reused };
}

/** Stops agents of images, or of all images of the container. Turns that run or wait end as interrupted. */
export async function stop(peer: Peer, link: Link, imageIds: string[] | null): Promise<Image[]> {
  const stopped = await link.stub.stopAgents(imageIds, peer.id);
  for (const { image, run } of stopped) {
    peer.deliver(stoppedBatch(image));
    if (run !== undefined) peer.resume(link, run);
  }
  return stopped.map(({ image }) => image);
}

/** Stops the running turn of an image, an agent or a session; of a turn that is named, no other. */
export async function interrupt(peer: Peer, { imageId, agentId, sessionId, turnId }: Interrupted): Promise<Image | undefined> {
  const local = [...peer.runs.values()].find(({ accepted: { image, agentId: other, turnId: running } }) => {
    const isMeant = imageId !== undefined ? image.imageId === imageId : agentId !== undefined ? other === agentId : image.sessionId === sessionId;
    return isMeant && (sessionId === undefined || image.sessionId === sessionId) && (turnId === undefined || running === turnId);
  });
  if (local !== undefined) {
    local.announceInterrupt();
    peer.after(() => local.stop());
    return { ...local.accepted.image, agentId: local.accepted.agentId };
  }
  const link = await peer.linkTo(imageId ?? agentId ?? sessionId ?? "");
  const found = await link?.stub.interrupt({ imageId, agentId, sessionId, turnId }, peer.id);
  if (found?.isQueued) throw invalid("A message that waits cannot be taken back alone at the edge: it is answered, or goes with onBusy: interrupt");
  if (link !== undefined && found?.run !== undefined) peer.resume(link, found.run);
  if (found === undefined || found.image.agentId === undefined) {
    if (imageId === undefined && agentId !== undefined) throw agentNotFound(agentId);
    return undefined;
  }
  const { image, running } = found;
  if (!running && turnId === undefined) peer.tellOf(image, tell("interrupted", { agentId: image.agentId ?? "", containerId: image.containerId }, Date.now()));
  return image;
}

/** What is to be stopped. */
export interface Interrupted {
  imageId?: string | undefined;
  agentId?: string | undefined;
  sessionId?: string | undefined;
  turnId?: string | undefined;
}

// --- messages

export interface Sending {
  imageId?: string;
  agentId?: string;
  sessionId?: string;
  content: unknown;
  clientKey?: string;
  onBusy?: AcceptRequest["onBusy"];
  onParked?: AcceptRequest["onParked"];
}

/** Accepts a message: it is stored when this returns, and its turn begins when the reply has left. */
export async function send(peer: Peer, { imageId, agentId, sessionId, content, clientKey, onBusy = "queue", onParked = "supersede" }: Sending): Promise<AcceptReply> {
  const id = imageId || agentId || sessionId;
  if (!id) throw invalid("Either imageId or agentId must be provided");
  const checked = contentOf(content);
  const link = await peer.linkTo(id);
  const place = placeIn(id);
  if (link === undefined || place === undefined) throw refusal(imageId ? "image" : agentId ? "agent" : "session", id);
  const at = Date.now();
  const turnId = peer.newId("turn", place);
  const user = { id: `msg_${random()}`, role: "user" as const, subtype: "user" as const, content: checked, timestamp: at, turnId };
  const target = { ...(imageId ? { imageId } : agentId ? { agentId } : {}), ...(sessionId ? { sessionId } : {}), onBusy, onParked };
  const reply = await link.stub.accept({ ...target, newAgentId: peer.newId("agent", place), turnId, user, runner: peer.id, ...(clientKey ? { clientKey } : {}) });
  if ("refused" in reply) throw refusal(reply.refused, id);
  const { image } = reply;
  peer.listen(link, image.sessionId);
  if (reply.repeated) return reply;
  const persisted = tell("message_persisted", { sessionId: image.sessionId, messageId: user.id, savedAt: at }, at);
  peer.begin(link, reply, reply.queued ? [persisted, tell("conversation_queued", { messageId: user.id }, at)] : []);
  return reply;
}

function refusal(refused: Refused, id: string): EdgeError {
  if (refused === "session") return new EdgeError("session_not_found", `Session not found: ${shorten(id)}`);
  if (refused === "busy") return new EdgeError("agent_busy", "The agent is busy with another message: wait for its end, or send with onBusy: queue");
  if (refused === "full") return new EdgeError("inbox_full", "Too many messages wait for this agent: send again when some are answered");
  return refused === "image" ? imageNotFound(id) : agentNotFound(id);
}

// --- waits

export async function listWaits(peer: Peer, { containerName, sessionId: wanted, isAnswered }: WaitFilter): Promise<(Data & { waitId: string; askedAt: number })[]> {
  const names = containerName === undefined || containerName === null ? await allContainers(peer) : [containerName];
  const lists = await Promise.all(
    names.map(async (name) => {
      const turns = await (await peer.link(await peer.principal.place(name))).stub.waits();
      return turns.filter(({ sessionId }) => wanted === undefined || sessionId === wanted).flatMap(({ turnId, sessionId, waits }) =>
        waits.filter((wait) => isAnswered === undefined || (wait.answer !== undefined) === isAnswered).map(({ callId, toolName, ...wait }) => ({ ...wait, callId, tool: toolName, turnId, sessionId, containerId: name })),
      );
    }),
  );
  return lists.flat().sort((one, other) => one.askedAt - other.askedAt || (one.waitId < other.waitId ? -1 : 1));
}

/** Every member narrows the list. */
export interface WaitFilter {
  containerName?: string;
  sessionId?: string;
  isAnswered?: boolean;
}

const DECISIONS = ["approve", "edit", "deny", "answer"] as const;

/** Answers a call that waits: the first answer counts. */
export async function answer(peer: Peer, data: Data): Promise<{ waitId: string; turnId: string; decision: string }> {
  const waitId = text(data, "waitId");
  const decision = DECISIONS.find((one) => one === data.decision);
  if (decision === undefined) throw invalid(`decision must be one of ${DECISIONS.join(", ")}`);
  if ((data.input !== undefined) !== (decision === "edit")) throw invalid("input is required for the decision edit, and for no other");
  const none = new EdgeError("wait_not_found", `Wait not found: ${shorten(waitId)}`);
  const link = await peer.linkTo(waitId);
  const waiting = (await link?.stub.waits())?.find(({ waits }) => waits.some((wait) => wait.waitId === waitId));
  if (link === undefined || waiting === undefined) throw none;
  const wait = waiting.waits.find((one) => one.waitId === waitId);
  const allowed = wait?.kind === "client" ? ["answer", "deny"] : ["approve", "edit", "deny"];
  if (!allowed.includes(decision)) throw invalid(`decision must be one of ${allowed.join(", ")} for a wait of the kind ${wait?.kind ?? ""}`);
  const reason = optionalText(data, "reason");
  refuseGiven(data, "remember");
  const given: WaitAnswer = {
    decision,
    ...(decision === "edit" ? { input: objectOf(data.input, "input") } : {}),
    ...(decision === "answer" ? { result: data.result ?? null } : {}),
    ...(reason === undefined ? {} : { reason }),
  };
  const reply = await link.stub.answer(waitId, waiting.sessionId, given, text(data, "fingerprint"), peer.id);
  if ("refused" in reply) {
    if (reply.refused === "other") throw invalid("fingerprint is not that of this wait: look at the call again, it is another than the one you saw");
    if (reply.refused === "expired") throw new EdgeError("wait_expired", `Wait expired: ${shorten(waitId)}`);
    throw reply.refused === "none" ? none : new EdgeError("wait_answered", `Wait already answered: ${shorten(waitId)}`);
  }
  peer.listen(link, waiting.sessionId);
  if (reply.run !== undefined) peer.resume(link, reply.run);
  return { waitId, turnId: reply.turnId, decision };
}

