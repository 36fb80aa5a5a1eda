/** Files that go with a message. Their bytes go over HTTP; the message refers to them. */

import type { FilePart } from "./frames.ts";
import { http } from "./http.ts";

export interface Attached {
  name: string;
  mediaType: string;
  size: number;
  /** The file itself, until the server has it. */
  file?: Blob;
  /** The name under which the server has it. */
  reference?: string;
}

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/** Whether the media type is a picture that a model and a browser show. A drawing that can hold scripts is none. */
export const isPicture = (mediaType: string) => PICTURES.has(mediaType);

/** The part of a message that refers to an uploaded file. */
export function partOf({ name, mediaType, reference }: Attached): FilePart {
  if (isPicture(mediaType)) return { type: "image", data: reference ?? "", mediaType, name };
  return { type: "file", data: reference ?? "", mediaType, filename: name };
}

/** The address of an attachment on this server; undefined for anything else. */
export function addressOf(data: string, containerId: string): string | undefined {
  if (!/^attachment:sha256:[0-9a-f]{64}$/.test(data)) return undefined;
  return `/v1/attachments/${data}?container=${encodeURIComponent(containerId)}`;
}

/** Stores a file on the server and returns its reference. Throws `ApiError`. */
export async function upload(attached: Attached, containerId: string, onProgress: (part: number) => void, signal?: AbortSignal): Promise<string> {
  const { name, mediaType, file = new Blob() } = attached;
  return (await http.upload(containerId, file, { name, mediaType, onProgress, signal })).attachment;
}
