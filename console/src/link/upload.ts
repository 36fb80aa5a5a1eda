/** Files that go with a message. Their bytes go over HTTP; the message refers to them. */

import { ApiError, errorOf } from "./http.ts";

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
const DEADLINE_MS = 600_000;

/** Whether the media type is a picture that a model and a browser show. A drawing that can hold scripts is none. */
export const isPicture = (mediaType: string) => PICTURES.has(mediaType);

/** The part of a message that refers to an uploaded file. */
export function partOf({ name, mediaType, reference }: Attached): Record<string, unknown> {
  if (isPicture(mediaType)) return { type: "image", data: reference, mediaType, name };
  return { type: "file", data: reference, mediaType, filename: name };
}

/** The address of an attachment on this server; undefined for anything else. */
export function addressOf(data: string, containerId: string): string | undefined {
  if (!/^attachment:sha256:[0-9a-f]{64}$/.test(data)) return undefined;
  return `/v1/attachments/${data}?container=${encodeURIComponent(containerId)}`;
}

/** Stores a file on the server and returns its reference. Throws `ApiError`. */
export function upload(attached: Attached, containerId: string, onProgress: (part: number) => void, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const query = new URLSearchParams({ container: containerId, name: attached.name });
    request.open("POST", `/v1/attachments?${query}`);
    request.timeout = DEADLINE_MS;
    request.setRequestHeader("Content-Type", attached.mediaType);
    request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 0 : loaded / total);
    const unreachable = () => reject(new ApiError(0, "unreachable", "The server cannot be reached"));
    request.onerror = unreachable;
    request.ontimeout = unreachable;
    request.onabort = unreachable;
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) resolve((JSON.parse(request.responseText) as { attachment: string }).attachment);
      else reject(errorOf(request.status, request.responseText));
    };
    signal?.addEventListener("abort", () => request.abort());
    request.send(attached.file);
  });
}
