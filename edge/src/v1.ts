/** Dialect 1.x — commands and events in the JSON of AgentX 1.x. */

import type { Events } from "../../clients/typescript/src/types.ts";
import * as commands from "./commands.ts";
import { type EdgeError, invalid, shorten } from "./errors.ts";
import { type Batch, kindOf } from "./events.ts";
import { recordOf } from "./images.ts";
import { type Data, objectOf, oneOf, optionalNumber, optionalText, refuseGiven, text } from "./input.ts";
import type { Peer } from "./peer.ts";
import type { Image } from "./records.ts";

interface Command {
  run(peer: Peer, data: Data): Promise<Data>;
  /** The reply's other fields when the command fails. */
  refused?(data: Data): Data;
}

const named = (name: string) => (data: Data): Data => (typeof data[name] === "string" ? { [name]: data[name] } : {});
const subscribed = (...images: Image[]): Data => ({ __subscriptions: images.map((image) => image.sessionId) });
const agentRecord = ({ agentId, containerId, imageId, sessionId }: Image): Data => ({ agentId, containerId, imageId, sessionId });

const PAGE_MAX = 500;

export const COMMANDS: Record<string, Command> = {
  container_create: {
    run: async (peer, data) => ({ containerId: (await commands.ensureContainer(peer, data.containerId)).containerId }),
    refused: named("containerId"),
  },
  container_get: {
    run: async (peer, data) => {
      const exists = await (await peer.link(await peer.principal.place(data.containerId))).stub.exists();
      return exists ? { exists, containerId: data.containerId } : { exists };
    },
    refused: () => ({ exists: false }),
  },
  container_list: {
    run: async (peer, data) => {
      const limit = pageLimit(data);
      const containerIds = await commands.listContainers(peer, optionalText(data, "cursor"), limit);
      return { containerIds, ...(containerIds.length === limit ? { nextCursor: containerIds.at(-1) } : {}) };
    },
    refused: () => ({ containerIds: [] }),
  },
  agent_get: {
    run: async (peer, data) => {
      const found = await commands.findAgent(peer, text(data, "agentId"));
      return found === undefined ? { exists: false } : { exists: true, ...agentRecord(found.image), state: found.state, queued: found.queued };
    },
    refused: () => ({ exists: false }),
  },
  agent_list: {
    run: async (peer, data) => {
      const images = await (await peer.link(await peer.principal.place(data.containerId))).stub.images();
      return { agents: images.filter((image) => image.agentId !== undefined).map(agentRecord) };
    },
    refused: () => ({ agents: [] }),
  },
  agent_destroy: {
    run: async (peer, data) => {
      const found = await commands.findAgent(peer, text(data, "agentId"));
      if (found !== undefined) await commands.stop(peer, found.link, [found.image.imageId]);
      return { agentId: data.agentId, success: found !== undefined };
    },
    refused: (data) => ({ ...named("agentId")(data), success: false }),
  },
  agent_destroy_all: {
    run: async (peer, data) => {
      await commands.stop(peer, await peer.link(await peer.principal.place(data.containerId)), null);
      return { containerId: data.containerId };
    },
    refused: named("containerId"),
  },
  agent_interrupt: {
    run: async (peer, data) => {
      const imageId = optionalText(data, "imageId") || undefined;
      const agentId = optionalText(data, "agentId") || undefined;
      const sessionId = optionalText(data, "sessionId") || undefined;
      const turnId = optionalText(data, "turnId") || undefined;
      if (imageId === undefined && agentId === undefined && sessionId === undefined) throw invalid("Either imageId or agentId must be provided");
      const image = await commands.interrupt(peer, { imageId, agentId, sessionId, turnId });
      return image === undefined ? { imageId } : { imageId: image.imageId, agentId: image.agentId };
    },
    refused: (data) => ({ ...named("imageId")(data), ...named("agentId")(data) }),
  },
  message_send: {
    run: async (peer, data) => {
      const imageId = optionalText(data, "imageId");
      const agentId = optionalText(data, "agentId");
      const sessionId = optionalText(data, "sessionId");
      const clientKey = optionalText(data, "clientMessageId");
      const onBusy = oneOf(data, "onBusy", ["queue", "interrupt", "reject"] as const);
      const onParked = oneOf(data, "onParked", ["supersede", "queue", "reject"] as const);
      refuseGiven(data, "options", "output");
      const reply = await commands.send(peer, { ...(imageId ? { imageId } : {}), ...(agentId ? { agentId } : {}), content: data.content, ...(sessionId ? { sessionId } : {}), ...(clientKey ? { clientKey } : {}), ...(onBusy ? { onBusy } : {}), ...(onParked ? { onParked } : {}) });
      const { image, turnId, messageId, seq } = reply;
      return { agentId: reply.agentId, imageId: image.imageId, messageId, turnId, sessionId: image.sessionId, cursor: String(seq) };
    },
    refused: (data) => ({ agentId: typeof data.agentId === "string" ? data.agentId : "", ...named("imageId")(data) }),
  },
  image_create: {
    run: async (peer, data) => {
      const image = await commands.createImage(peer, data.containerId, objectOf(data.config ?? {}, "config"));
      return { record: recordOf(image), ...subscribed(image) };
    },
  },
  image_run: {
    run: async (peer, data) => {
      const { image, agentId, reused } = await commands.runImage(peer, text(data, "imageId"));
      return { imageId: image.imageId, agentId, reused, sessionId: image.sessionId };
    },
    refused: (data) => ({ ...named("imageId")(data), agentId: "", reused: false }),
  },
  image_stop: {
    run: async (peer, data) => {
      const { link, image } = await commands.imageOf(peer, text(data, "imageId"));
      await commands.stop(peer, link, [image.imageId]);
      return { imageId: image.imageId };
    },
    refused: named("imageId"),
  },
  image_update: {
    run: async (peer, data) => {
      return { record: recordOf(await commands.updateImage(peer, text(data, "imageId"), data.updates === undefined ? {} : objectOf(data.updates, "updates"))) };
    },
  },
  image_list: {
    run: async (peer, data) => {
      const images = await commands.listImages(peer, data.containerId);
      return { records: images.map(recordOf), ...subscribed(...images) };
    },
    refused: () => ({ records: [] }),
  },
  image_get: {
    run: async (peer, data) => {
      const found = await commands.findImage(peer, text(data, "imageId"));
      if (found === undefined) return { record: null };
      peer.listen(found.link, found.image.sessionId);
      return { record: recordOf(found.image), ...subscribed(found.image) };
    },
    refused: () => ({ record: null }),
  },
  image_delete: {
    run: async (peer, data) => {
      await commands.deleteImage(peer, text(data, "imageId"));
      return { imageId: data.imageId };
    },
    refused: named("imageId"),
  },
  image_messages: {
    run: async (peer, data) => {
      const found = await commands.imageOf(peer, text(data, "imageId"));
      peer.listen(found.link, found.image.sessionId);
      const all = await commands.history(found);
      const parents = new Set(all.map((message) => (message.subtype === "tool-call" ? message.parentId : "")));
      // One without words is the parent of its calls, without which a page cannot show them.
      const messages = all.filter((message) => message.subtype !== "assistant" || message.content.length > 0 || parents.has(message.id));
      return { imageId: found.image.imageId, messages };
    },
    refused: (data) => ({ ...named("imageId")(data), messages: [] }),
  },
  tool_waits: {
    run: async (peer, data) => {
      const containerName = optionalText(data, "containerId");
      const sessionId = optionalText(data, "sessionId");
      const state = oneOf(data, "state", ["open", "answered", null] as const);
      const after = optionalText(data, "cursor");
      const limit = pageLimit(data);
      const all = await commands.listWaits(peer, { ...(containerName === undefined ? {} : { containerName }), ...(sessionId === undefined ? {} : { sessionId }), ...(state ? { isAnswered: state === "answered" } : {}) });
      const from = after === undefined ? 0 : all.findIndex(({ waitId }) => waitId === after) + 1;
      if (after !== undefined && from === 0) throw invalid("The cursor is not valid: take nextCursor of the last page");
      const waits = all.slice(from, from + limit);
      return { waits, ...(from + limit < all.length ? { nextCursor: waits.at(-1)?.waitId } : {}) };
    },
    refused: () => ({ waits: [] }),
  },
  tool_answer: { run: async (peer, data) => ({ ...(await commands.answer(peer, data)) }) },
};

function pageLimit(data: Data): number {
  if (data.limit === null) throw invalid("limit must be a number");
  return optionalNumber(data, "limit", 1, PAGE_MAX) ?? PAGE_MAX;
}

/** Whether a type is that of an event, which only a server sends. */
export function isEventType(type: string): boolean {
  return Object.hasOwn(SERVER_EVENTS, type) || type.endsWith("_response");
}

const SERVER_EVENTS: Partial<Record<keyof Events, true>> & Record<string, true | undefined> = Object.fromEntries(
  ["message_start", "message_delta", "message_stop", "text_delta", "thinking_delta", "tool_use_start", "input_json_delta", "tool_use_stop", "tool_result"]
    .concat(["user_message", "assistant_message", "tool_call_message", "tool_result_message", "error_message", "turn_request", "message_persisted"])
    .concat(["interrupted", "container_created", "image_created", "image_updated", "image_deleted", "agent_registered", "agent_unregistered"])
    .concat(["session_destroyed", "system_error", "conversation_start", "conversation_responding", "conversation_end", "error_received", "error_occurred"])
    .map((type) => [type, true]),
);

/** The frames of events. */
export function encodeBatch(batch: Batch): string[] {
  return batch.events.map((event) => {
    const [source, category, intent = "notification"] = kindOf(event.type);
    const frame = { type: event.type, timestamp: event.at, data: event.data, source, category, intent, context: batch.scope };
    return JSON.stringify(event.seq > 0 ? { ...frame, cursor: String(event.seq) } : frame);
  });
}

export function encodeReply(name: string, requestId: string | undefined, data: Data): string {
  const body = { ...(requestId === undefined ? {} : { requestId }), ...data };
  return JSON.stringify({ type: `${name}_response`, timestamp: Date.now(), data: body, source: "command", category: "response", intent: "result" });
}

/** The event about a failed command, for the client that sent it. */
export function encodeError(error: EdgeError, requestId: string | undefined, data: Data): string {
  const told = { message: error.message, ...(requestId === undefined ? {} : { requestId }), severity: "error", code: error.code };
  const ids = ["containerId", "imageId", "agentId"].filter((name) => typeof data[name] === "string");
  const context = Object.fromEntries(ids.map((name) => [name, shorten(data[name] as string)]));
  return JSON.stringify({ type: "system_error", timestamp: Date.now(), source: "command", category: "error", intent: "notification", data: told, context });
}
