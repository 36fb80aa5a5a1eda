/** Files to and from the management API. */

import { ApiError, errorOf } from "./http.ts";

const UPLOAD_DEADLINE_MS = 600_000;

/** Sends a file as it is; returns the reply. */
export async function sendFile<T>(method: string, path: string, file: Blob): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { method, headers: { "Content-Type": "application/octet-stream" }, body: file, signal: AbortSignal.timeout(UPLOAD_DEADLINE_MS) });
  } catch {
    throw new ApiError(0, "unreachable", "The server cannot be reached");
  }
  const text = await response.text();
  if (response.ok) return (text === "" ? undefined : JSON.parse(text)) as T;
  throw errorOf(response.status, text);
}

/** The path of a file of a session, name by name. */
export const filePath = (sessionId: string, path: string) =>
  `/v1/sessions/${encodeURIComponent(sessionId)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
