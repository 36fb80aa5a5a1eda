/** The agents to begin with, and the names of those that answer. */

import { signal } from "@preact/signals";
import { ask } from "../link/socket.ts";

export interface Agent {
  name: string;
  description?: string;
  /** Only agents of the resource centre have one. */
  uri?: string;
}

const SHOWN_MAX = 6;
const OTHER_LANGUAGE = "-zh";
const DEFAULT = "default";
const UNNAMED = "New Conversation";
const SHIPPED = "resource://agents/system/";

export const agents = signal<Agent[]>([]);
/** The name of the agent of each image that was asked for. */
export const names = signal<Readonly<Record<string, string>>>({});

export async function loadAgents(): Promise<void> {
  try {
    agents.value = (await ask("definition_list", {})).definitions;
  } catch {
    // Nobody needs the list to begin.
  }
}

export async function loadName(imageId: string): Promise<void> {
  if (imageId in names.value) return;
  const { record } = await ask("image_get", { imageId });
  names.value = { ...names.value, [imageId]: record?.definitionName ?? DEFAULT };
}

/** Does something with a new image of the agent in a container. The empty session that the image begins with goes. */
export async function withImage<T>(definition: string, containerId: string, use: (imageId: string) => Promise<T>): Promise<T> {
  const { record } = await ask("image_create", { containerId, config: { definition } });
  try {
    return await use(record.imageId);
  } finally {
    await ask("session_delete", { sessionId: record.sessionId });
  }
}

/** The agents that are offered: a user's own before those that ship, and of two languages the one in use. */
export function offered(all: Agent[], language: string): Agent[] {
  const known = new Set(all.map((agent) => agent.name));
  const fits = ({ name }: Agent) =>
    name.endsWith(OTHER_LANGUAGE)
      ? language === "zh" || !known.has(name.slice(0, -OTHER_LANGUAGE.length))
      : language !== "zh" || !known.has(name + OTHER_LANGUAGE);
  const isShipped = ({ uri }: Agent) => uri?.startsWith(SHIPPED) ?? false;
  const fitting = all.filter((agent) => agent.name !== DEFAULT && fits(agent));
  return [...fitting.filter((agent) => !isShipped(agent)), ...fitting.filter(isShipped)].slice(0, SHOWN_MAX);
}

/** Whether somebody has named the agent. The agent of a single conversation has the name that the server gives to all of them. */
export const hasOwnName = ({ name }: { name: string }) => name !== UNNAMED;

/** The name of an agent that was built, or else of what it was built from; undefined for the default one. */
export const nameOf = (image: { name: string; definitionName: string }, translated: Readonly<Record<string, string>>) => (hasOwnName(image) ? image.name : readable(image.definitionName, translated));

/** The name of an agent as people read it; undefined for the default one, which has none. */
export function readable(name: string, translated: Readonly<Record<string, string>>): string | undefined {
  if (name === DEFAULT) return undefined;
  const base = name.endsWith(OTHER_LANGUAGE) ? name.slice(0, -OTHER_LANGUAGE.length) : name;
  return translated[base] ?? name;
}
