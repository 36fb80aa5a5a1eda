/** Images — builds of definitions: created, changed, listed and shown. */

import { type Env, modelOf } from "./env.ts";
import { BODY_MAX_BYTES } from "./body.ts";
import { EdgeError, invalid, shorten, tooLarge } from "./errors.ts";
import { type Batch, tell } from "./events.ts";
import { sha256 } from "./ids.ts";
import { readImageFile } from "./image_file.ts";
import { bytesOf, type Data, optionalNumber, optionalObject, optionalText, refuseGiven } from "./input.ts";
import type { Definition, Image, ToolDefinition } from "./records.ts";

const DEFAULT_DEFINITION = "default";
const DEFAULT_NAME = "New Conversation";
const TEMPERATURE_MAX = 2;
const TOKENS_MAX = 1_000_000;
const FILE_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;
const CLIENT_DATA_MAX = 64 * 1024;

/** The definition of a new image, with the name that it is known by. */
export async function definitionOf(env: Env, tenant: string, config: Data): Promise<{ name: string; description?: string; definition: Definition }> {
  const named = optionalText(config, "definition");
  const base = named === undefined ? { name: DEFAULT_DEFINITION, definition: { tools: [] } as Definition } : await fromFile(env, tenant, named);
  return { ...base, definition: changed(env, base.definition, config) };
}

/** A definition with the values that a client gives. */
export function changed(env: Env, base: Definition, config: Data): Definition {
  const systemPrompt = optionalText(config, "systemPrompt") ?? base.systemPrompt;
  const model = optionalText(config, "model") ?? base.model;
  if (model !== undefined) modelOf(env, model);
  const maxTokens = optionalNumber(config, "maxTokens", 1, TOKENS_MAX) ?? base.maxTokens;
  const temperature = optionalNumber(config, "temperature", 0, TEMPERATURE_MAX, false) ?? base.temperature;
  const thinking = optionalNumber(config, "thinking", 1, TOKENS_MAX) ?? base.thinking;
  const tools = toolsOf(config.tools, base.tools);
  refuseGiven(config, "sandbox", "knowledge", "skills", "variables", "output", "apiKey");
  if (Object.keys((config.mcpServers as object | undefined) ?? {}).length > 0) {
    throw new EdgeError("tier_unavailable", "MCP servers cannot be reached from the edge: build the image on a server");
  }
  return {
    ...(systemPrompt === undefined ? {} : { systemPrompt }),
    ...(model === undefined ? {} : { model }),
    ...(maxTokens === undefined ? {} : { maxTokens }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(thinking === undefined ? {} : { thinking }),
    ...(base.policy === undefined ? {} : { policy: base.policy }),
    tools,
  };
}

/** The tools of the file that a client wants; a client cannot add any. */
function toolsOf(wanted: unknown, tools: ToolDefinition[]): ToolDefinition[] {
  if (wanted === undefined || wanted === null) return tools;
  if (!Array.isArray(wanted) || wanted.some((name) => typeof name !== "string")) throw invalid("tools must be a list of names");
  return (wanted as string[]).map((name) => {
    const tool = tools.find((other) => other.name === name);
    if (tool === undefined) throw new EdgeError("tool_not_found", `There is no tool ${shorten(name)}: tools come with the file of an image`);
    return tool;
  });
}

/** The file of the tenant; or the one of this name that is for all tenants. */
async function fromFile(env: Env, tenant: string, name: string): Promise<{ name: string; description?: string; definition: Definition }> {
  if (!FILE_NAME.test(name)) throw invalid("definition must be the name of a file of an image: letters, digits, dots, hyphens and underscores");
  const file = (await env.IMAGES.get(`${tenant}/${name}.avmimage`)) ?? (await env.IMAGES.get(`${name}.avmimage`));
  if (file === null) throw new EdgeError("definition_not_found", `Definition not found: ${shorten(name)}`);
  return await readImageFile(await file.arrayBuffer());
}

export async function newImage(env: Env, tenant: string, containerId: string, imageId: string, sessionId: string, config: Data): Promise<Image> {
  const { name: definitionName, description: own, definition } = await definitionOf(env, tenant, config);
  const at = Date.now();
  const description = optionalText(config, "description") ?? own;
  const clientData = clientDataOf(config);
  return storable({
    imageId, sessionId, containerId, name: optionalText(config, "name") ?? DEFAULT_NAME,
    ...(description === undefined ? {} : { description }),
    definitionName, digest: await digestOf(definition), definition,
    ...(clientData === undefined ? {} : { clientData }),
    createdAt: at, updatedAt: at,
  });
}

/** An image that the object can store: it is one row. */
export function storable(image: Image): Image {
  if (bytesOf(JSON.stringify(image)) > BODY_MAX_BYTES) throw tooLarge(`An image has at most ${BODY_MAX_BYTES.toLocaleString("en-US")} bytes at the edge, with its prompt and its tools`);
  return image;
}

/** Data of the client's own, which are kept as they are. */
export function clientDataOf(config: Data): Data | undefined {
  const clientData = optionalObject(config, "clientData");
  if (clientData !== undefined && JSON.stringify(clientData).length > CLIENT_DATA_MAX) throw invalid(`clientData has at most ${CLIENT_DATA_MAX.toLocaleString("en-US")} bytes`);
  return clientData;
}

/** Members of an image that can be set back to what they are without a word about them. */
const CLEARABLE = ["systemPrompt", "model", "maxTokens", "temperature", "thinking", "tools", "clientData"] as const;
const NEVER_SET = ["apiKey", "knowledge", "mcpServers", "output", "sandbox", "skills", "variables"] as const;

/** An image without some of its members. */
export function cleared(image: Image, names: unknown): Image {
  if (names === undefined || names === null) return image;
  const known: readonly unknown[] = [...CLEARABLE, ...NEVER_SET];
  if (!Array.isArray(names) || names.some((name) => !known.includes(name))) throw invalid(`clear is a list of ${known.join(", ")}`);
  const wanted = CLEARABLE.filter((name) => names.includes(name));
  const { clientData, ...rest } = image;
  const definition = Object.fromEntries(Object.entries(image.definition).filter(([name]) => !wanted.some((other) => other === name)));
  // What the file has said of them is not known any more.
  if (image.definitionName !== DEFAULT_DEFINITION && wanted.some((name) => name !== "clientData")) throw invalid("clear is not taken for an image of a file: write what you want instead");
  return { ...rest, definition: { tools: [], ...definition }, ...(clientData === undefined || wanted.includes("clientData") ? {} : { clientData }) };
}

export async function digestOf(definition: Definition): Promise<string> {
  return `sha256:${await sha256(new TextEncoder().encode(JSON.stringify(definition)))}`;
}

/** An image as clients see it. */
export function recordOf(image: Image): Data {
  const { imageId, containerId, sessionId, name, description, createdAt, updatedAt, agentId, definitionName, digest, clientData, definition } = image;
  return {
    imageId, containerId, sessionId, name,
    ...(description === undefined ? {} : { description }),
    ...(definition.systemPrompt === undefined ? {} : { systemPrompt: definition.systemPrompt }),
    createdAt, updatedAt, online: agentId !== undefined,
    ...(agentId === undefined ? {} : { agentId }),
    definitionName, digest,
    ...(clientData === undefined ? {} : { clientData }),
  };
}

export function createdBatch({ imageId, containerId, name, createdAt }: Image): Batch {
  return { scope: { imageId, containerId }, events: [{ ...tell("image_created", { imageId, containerId, name, createdAt }, createdAt), seq: 0 }] };
}

export function updatedBatch({ imageId, containerId, name, updatedAt, description }: Image): Batch {
  const data = { imageId, containerId, name, updatedAt, ...(description === undefined ? {} : { description }) };
  return { scope: { imageId, containerId }, events: [{ ...tell("image_updated", data, updatedAt), seq: 0 }] };
}
