/** Input — checks of what clients send: its size before it is read, its types before they are used. */

import type { UserMessage } from "../../clients/typescript/src/types.ts";
import { type EdgeError, invalid, shorten, tooLarge } from "./errors.ts";

export type Data = Record<string, unknown>;

export const FRAME_MAX_BYTES = 4 * 1024 * 1024;
export const DATA_MAX_BYTES = 1024 * 1024;
/** A message and its answer are one row, which has at most 2 MB. */
export const MESSAGE_MAX_BYTES = 1_500_000;
const VALUES_MAX = 50_000;
const DEPTH_MAX = 512;
/** A text of this length cannot hold too much of anything. */
const SMALL_CHARACTERS = 500;
const TEXT_MAX = 200_000;

/** Refuses a frame that is nested too deeply before anything is built of it; returns why it can be no request, if it holds too many values. */
export function checkBounds(text: string): EdgeError | undefined {
  if (text.length <= SMALL_CHARACTERS) return undefined;
  let depth = 0;
  let values = 0;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 92) at++;
      else if (code === 34) inString = false;
    } else if (code === 34) inString = true;
    else if (code === 91 || code === 123) {
      values++;
      if (++depth > DEPTH_MAX) throw invalid(`The frame is nested too deeply; at most ${DEPTH_MAX} levels are allowed`);
    } else if (code === 93 || code === 125) depth--;
    else if (code === 44) values++;
  }
  return values > VALUES_MAX ? tooLarge(`The frame holds too many values; at most ${VALUES_MAX.toLocaleString("en-US")} are allowed`) : undefined;
}

/** Bytes of a text in UTF-8. */
export function bytesOf(text: string): number {
  return text.length <= SMALL_CHARACTERS ? text.length : new TextEncoder().encode(text).byteLength;
}

export function isObject(value: unknown): value is Data {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function objectOf(value: unknown, name: string): Data {
  if (!isObject(value)) throw invalid(`${name} must be an object`);
  return value;
}

export function text(data: Data, name: string): string {
  const value = data[name];
  if (typeof value !== "string") throw invalid(`${name} must be a text`);
  return value;
}

export function optionalText(data: Data, name: string): string | undefined {
  const value = data[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "string") throw invalid(`${name} must be a text`);
  if (value.length > TEXT_MAX) throw tooLarge(`${name} has at most ${TEXT_MAX.toLocaleString("en-US")} characters`);
  return value.toWellFormed();
}

export function optionalNumber(data: Data, name: string, least: number, most: number, whole = true): number | undefined {
  const value = data[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "number" || value < least || value > most || (whole && !Number.isInteger(value))) {
    throw invalid(`${name} must be a ${whole ? "whole " : ""}number from ${least} to ${most}`);
  }
  return value;
}

/** One of some values; undefined if there is none. */
export function oneOf<T>(data: Data, name: string, known: readonly T[]): T | undefined {
  const value = data[name];
  if (value === undefined) return undefined;
  if (!known.includes(value as T)) throw invalid(`${name} is one of ${known.filter((one) => one !== null).join(", ")}`);
  return value as T;
}

/** Refuses members that mean something on a server, and would mean nothing here. Empty lists and objects ask for nothing. */
export function refuseGiven(data: Data, ...names: string[]): void {
  for (const name of names) {
    const value = data[name] ?? {};
    if (typeof value !== "object" || Object.keys(value).length > 0) throw invalid(`${name} is not taken at the edge`);
  }
}

export function optionalObject(data: Data, name: string): Data | undefined {
  const value = data[name];
  return value === undefined || value === null ? undefined : objectOf(value, name);
}

/** The content of a user's message. */
export function contentOf(value: unknown): UserMessage["content"] {
  if (value === "" || (Array.isArray(value) && value.length === 0)) throw invalid("content must not be empty");
  if (typeof value !== "string" && !Array.isArray(value)) throw invalid("content must be a text or a list of parts");
  const content = typeof value === "string" ? value.toWellFormed() : value.map(partOf);
  if (bytesOf(JSON.stringify(content)) > MESSAGE_MAX_BYTES) throw tooLarge(`A message has at most ${MESSAGE_MAX_BYTES.toLocaleString("en-US")} bytes at the edge, with its pictures`);
  return content;
}

function partOf(value: unknown): Exclude<UserMessage["content"], string>[number] {
  const part = objectOf(value, "A part of the content");
  if (part.type === "text") return { type: "text", text: text(part, "text").toWellFormed() };
  if (part.type !== "image" && part.type !== "file") throw invalid(`The type of a part is text, image or file, not ${JSON.stringify(shorten(String(part.type)))}`);
  const label = part.type === "image" ? "name" : "filename";
  const named = optionalText(part, label);
  return { type: part.type, data: text(part, "data"), mediaType: text(part, "mediaType"), ...(named === undefined ? {} : { [label]: named }) } as ReturnType<typeof partOf>;
}
