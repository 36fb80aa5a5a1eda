/** Dialect 2.x, methods — each over the commands that clients of 1.x use, in the words of 2.x. */

import { type Body, pack, unpack } from "./body.ts";
import * as commands from "./commands.ts";
import { scopeOf } from "./batches.ts";
import { providers } from "./env.ts";
import { EdgeError, imageNotFound, invalid, shorten } from "./errors.ts";
import { tell } from "./events.ts";
import { agentOf, instanceOf, isInstance } from "./ids.ts";
import { type Data, objectOf, optionalObject, optionalText, text } from "./input.ts";
import type { Peer } from "./peer.ts";
import type { AcceptReply, Image, StoredTurn } from "./records.ts";
import type { Message } from "./turn.ts";
import { foldMessages } from "./v2_events.ts";

type Method = (peer: Peer, params: Data) => Promise<unknown>;

const HISTORY_MAX_BYTES = 4 * 1024 * 1024;
const THINKING_TOKENS: Record<string, number> = { low: 5_000, medium: 10_000, high: 32_000 };
/** Members of an image that belong to the client, or are kept for it as it wrote them. */
const OWN = ["roleId", "contextId", "model", "thinking", "providerOptions", "customData"] as const;
const EMBODIED: readonly string[] = ["model", "systemPrompt", "mcpServers"];
const NO_FILES = "Files of agents are on servers: the edge has none";
const NO_REGISTRY = "Providers are variables of the Worker here: set PROVIDERS and deploy it again";

/** The image of an id; clients that were made from an instance give its id where an image's belongs. */
async function imageIdOf(peer: Peer, name: string): Promise<string> {
  if (!isInstance(name)) return name;
  const found = await commands.findAgent(peer, agentOf(name));
  if (found === undefined) throw imageNotFound(name);
  return found.image.imageId;
}

/** The image that the params name, or whose instance they name. */
async function addressed(peer: Peer, params: Data): Promise<string> {
  const instance = optionalText(params, "instanceId") ?? optionalText(params, "agentId");
  const found = instance ? await commands.findAgent(peer, agentOf(instance)) : undefined;
  if (found !== undefined) return found.image.imageId;
  const imageId = optionalText(params, "imageId");
  if (!imageId) throw invalid(instance ? `There is no instance ${shorten(instance)}` : "Either instanceId or imageId is required");
  return await imageIdOf(peer, imageId);
}

export async function sendMessage(peer: Peer, params: Data): Promise<AcceptReply> {
  const { model, thinking, providerOptions } = optionalObject(params, "options") ?? {};
  // As on a server `disabled` asks for nothing: clients send it with every message.
  if (model || providerOptions || (thinking && thinking !== "disabled")) throw invalid("The options of a message cannot choose a model or how it thinks at the edge: the image says which");
  return await commands.send(peer, { imageId: await addressed(peer, params), content: params.content });
}

function configOf(given: Data): Data {
  // From 2.5 to 2.8 some members stood in an object of their own.
  const within = Object.entries(optionalObject(given, "embody") ?? {}).filter(([name, value]) => EMBODIED.includes(name) && value !== null);
  const params: Data = { ...given, ...Object.fromEntries(within) };
  const { mcpServers, thinking } = params;
  const [name, description, systemPrompt, model] = ["name", "description", "systemPrompt", "model"].map((member) => optionalText(params, member));
  if (thinking !== undefined && thinking !== null && thinking !== "disabled" && !(String(thinking) in THINKING_TOKENS)) {
    throw invalid("thinking must be one of disabled, low, medium, high");
  }
  const clientData = Object.fromEntries(OWN.filter((member) => params[member] !== undefined).map((member) => [member, params[member]]));
  return { name, description, systemPrompt, model, mcpServers, thinking: THINKING_TOKENS[String(thinking)], clear: thinking === "disabled" ? ["thinking"] : undefined, ...(Object.keys(clientData).length > 0 ? { clientData } : {}) };
}

function recordOf(image: Image): Data {
  const { imageId, containerId, sessionId, name, description, createdAt, updatedAt, clientData, definition } = image;
  const shown = { imageId, containerId, sessionId, name, description, systemPrompt: definition.systemPrompt, createdAt, updatedAt, ...clientData };
  return { ...Object.fromEntries(Object.entries(shown).filter(([, value]) => value !== undefined)), metadata: {} };
}

const instance = ({ agentId, imageId, containerId, sessionId }: Image): Data => ({
  instanceId: agentId === undefined ? null : instanceOf(agentId),
  imageId,
  containerId,
  sessionId,
  lifecycle: "running",
});

function instanceName(params: Data): string {
  const name = optionalText(params, "instanceId") || optionalText(params, "agentId");
  if (!name) throw invalid("instanceId is required");
  return name;
}

const home = async (peer: Peer) => await peer.link(await peer.principal.place(peer.principal.home));

/** Takes back everything after a message; the calls of that message stay with it. */
async function rewind(peer: Peer, params: Data): Promise<unknown> {
  const messageId = optionalText(params, "messageId");
  if (!messageId) throw invalid("messageId is required");
  const { link, image } = await commands.imageOf(peer, await addressed(peer, params));
  const turns = await link.stub.history(image.sessionId, HISTORY_MAX_BYTES);
  const bodies = await Promise.all(turns.map(async (turn): Promise<[StoredTurn, Body]> => [turn, await unpack(turn.body)]));
  const found = bodies.findIndex(([, body]) => body.messages.some((message) => message.id === messageId));
  const [turn, body] = bodies[found] ?? [];
  if (turn === undefined || body === undefined) throw new EdgeError("not_found", `Message not found: ${shorten(messageId)}`);
  const kept = keptOf(body.messages, messageId);
  const dropped = [...body.messages.slice(kept.length), ...bodies.slice(found + 1).flatMap(([, later]) => later.messages)];
  const changed = kept.length === body.messages.length ? null : await pack({ ...body, messages: kept });
  const at = Date.now();
  const data = { sessionId: image.sessionId, rewindId: `rewind_${at}`, messageIds: dropped.map((message) => message.id), rewoundAt: at, keptId: messageId };
  const event = tell("session_rewound", { ...data, folded: foldMessages(dropped).length }, at);
  const batch = { scope: scopeOf(image), events: [{ ...event, seq: 0 }] };
  await link.stub.rewind(image.sessionId, turn.n, changed, batch, peer.id);
  peer.deliver(batch);
  return { instanceId: image.agentId === undefined ? params.instanceId : instanceOf(image.agentId) };
}

function keptOf(messages: readonly Message[], messageId: string): Message[] {
  let end = messages.findIndex((message) => message.id === messageId) + 1;
  const isCallOf = (message: Message | undefined): boolean => message?.subtype === "tool-call" && message.parentId === messageId;
  while (isCallOf(messages[end])) end += 1;
  return messages.slice(0, end);
}

async function interrupt(peer: Peer, params: Data): Promise<unknown> {
  const { image } = await commands.imageOf(peer, await addressed(peer, params));
  const found = await commands.interrupt(peer, { imageId: image.imageId });
  return { instanceId: found?.agentId === undefined ? null : instanceOf(found.agentId) };
}

async function refuseChange(): Promise<never> {
  throw new EdgeError("not_available", NO_REGISTRY);
}

function providerRecords(peer: Peer): Data[] {
  const { env, principal } = peer;
  const standard = env.DEFAULT_MODEL ?? "";
  return Object.entries(providers(env)).map(([name, { kind }]) => ({
    id: `llm_${name}`, containerId: principal.home, name, vendor: kind, protocol: kind, apiKey: "***",
    isDefault: standard.startsWith(`${name}/`), createdAt: 0, updatedAt: 0,
    ...(standard.startsWith(`${name}/`) ? { model: standard.slice(name.length + 1) } : {}),
  }));
}

const methods: Record<string, Method> = {
  "image.create": async (peer, params) => ({ record: recordOf(await commands.createImage(peer, peer.principal.home, configOf(params))) }),
  "image.get": async (peer, params) => {
    const found = await commands.findImage(peer, await imageIdOf(peer, text(params, "imageId")));
    return { record: found === undefined ? null : recordOf(found.image) };
  },
  "image.list": async (peer) => ({ records: (await (await home(peer)).stub.images()).map(recordOf) }),
  "image.update": async (peer, params) => {
    const named = text(params, "imageId");
    const config = configOf(objectOf(params.updates, "updates"));
    const imageId = await imageIdOf(peer, named);
    const { image } = await commands.imageOf(peer, imageId);
    const clientData = { ...image.clientData, ...(config.clientData as Data | undefined) };
    return { record: recordOf(await commands.updateImage(peer, imageId, { ...config, clientData })) };
  },
  "image.delete": async (peer, params) => {
    const imageId = await imageIdOf(peer, text(params, "imageId"));
    await commands.deleteImage(peer, imageId);
    return { imageId };
  },
  "image.run": async (peer, params) => {
    const { image, agentId, reused } = await commands.runImage(peer, await imageIdOf(peer, text(params, "imageId")));
    return { imageId: image.imageId, instanceId: instanceOf(agentId), sessionId: image.sessionId, containerId: image.containerId, reused };
  },
  "image.stop": async (peer, params) => {
    const found = await commands.findImage(peer, await imageIdOf(peer, text(params, "imageId")));
    if (found !== undefined) await commands.stop(peer, found.link, [found.image.imageId]);
    return { imageId: params.imageId };
  },
  "image.messages": async (peer, params) => {
    const found = await commands.imageOf(peer, await imageIdOf(peer, text(params, "imageId")));
    return { imageId: found.image.imageId, messages: foldMessages(await commands.history(found)) };
  },
  "instance.get": async (peer, params) => {
    const found = await commands.findAgent(peer, agentOf(instanceName(params)));
    return { agent: found === undefined ? null : instance(found.image), exists: found !== undefined };
  },
  "instance.list": async (peer) => {
    const images = await (await home(peer)).stub.images();
    return { agents: images.filter((image) => image.agentId !== undefined).map(instance) };
  },
  "instance.destroy": async (peer, params) => {
    const found = await commands.findAgent(peer, agentOf(instanceName(params)));
    if (found !== undefined) await commands.stop(peer, found.link, [found.image.imageId]);
    return { instanceId: instanceName(params), success: found !== undefined };
  },
  "instance.destroyAll": async (peer) => {
    await commands.stop(peer, await home(peer), null);
    return { containerId: peer.principal.home };
  },
  "instance.interrupt": interrupt,
  "runtime.rewind": rewind,
  "os.list": async (peer, params) => {
    await commands.imageOf(peer, await imageIdOf(peer, text(params, "imageId")));
    return { files: [] };
  },
  "os.read": async () => {
    throw new EdgeError("not_found", NO_FILES);
  },
  "os.write": async () => {
    throw new EdgeError("not_available", NO_FILES);
  },
  "llm.list": async (peer) => ({ records: providerRecords(peer) }),
  "llm.get": async (peer, params) => ({ record: providerRecords(peer).find((record) => record.id === optionalText(params, "id")) ?? null }),
  "llm.default": async (peer, params) => {
    if (optionalText(params, "id") !== undefined) await refuseChange();
    return { record: providerRecords(peer).find((record) => record.isDefault) ?? null };
  },
  "llm.create": refuseChange,
  "llm.update": refuseChange,
  "llm.delete": refuseChange,
};

/** Names of earlier 2.x versions. */
const EARLIER: Record<string, string> = {
  "agent.get": "instance.get", "agent.list": "instance.list", "agent.destroy": "instance.destroy", "agent.destroyAll": "instance.destroyAll",
  "agent.interrupt": "instance.interrupt", "message.truncateAfter": "runtime.rewind",
  "workspace.list": "os.list", "workspace.read": "os.read", "workspace.write": "os.write",
};

export const METHODS: Record<string, Method> = {
  ...methods,
  ...Object.fromEntries(Object.entries(EARLIER).map(([name, now]) => [name, methods[now] as Method])),
};
