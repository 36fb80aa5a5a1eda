/**
 * Ids — names of things, which say where the thing is.
 *
 * Every id holds the place of its container: 16 hexadecimal digits of the digest of the container's name. So the object that
 * holds an image is found from the id alone, and an id of somebody else leads to no object of one's own.
 */

import { invalid } from "./errors.ts";

const CONTAINER_MAX = 128;
const BAD_CONTAINER = /^\.|[/\\?#\p{Cc}]|^$/u;
const PLACED = /^(?:img|sess|agent|inst|turn|wait)_([0-9a-f]{16})[0-9a-z_]{1,64}$/;
const RANDOM_BYTES = 10;

export type Place = string;

/** The name of a container, if it can be one. */
export function checkContainer(name: unknown): string {
  if (typeof name !== "string") throw invalid("containerId must be a text");
  if (BAD_CONTAINER.test(name) || [...name].length > CONTAINER_MAX) {
    throw invalid(`containerId has 1 to ${CONTAINER_MAX} characters, begins with no dot, and has none of / \\ ? # or a control character`);
  }
  return name;
}

export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

export async function placeOf(containerId: string): Promise<Place> {
  return (await sha256(new TextEncoder().encode(containerId))).slice(0, 16);
}

/** The place that an id names; undefined for a text that is no id. */
export function placeIn(id: string): Place | undefined {
  return PLACED.exec(id)?.[1];
}

export function newId(kind: "img" | "sess" | "agent" | "turn" | "wait", place: Place): string {
  return `${kind}_${place}${random()}`;
}

export function random(): string {
  return hex(crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)));
}

/** The tenant in the name of an object, which is that of the tenant and of the place. */
export const tenantOf = (object: string): string => object.slice(0, Math.max(object.lastIndexOf("/"), 0));

/** An agent here is an instance for clients of 2.x. */
export const instanceOf = (agentId: string): string => `inst_${agentId.replace(/^agent_/, "")}`;
export const agentOf = (instanceId: string): string => `agent_${instanceId.replace(/^inst_/, "")}`;
export const isInstance = (id: string): boolean => id.startsWith("inst_");

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
