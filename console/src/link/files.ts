/** Files to and from the management API. */

import { content } from "./client.ts";
import { http } from "./http.ts";

/** Sends a file as it is; returns the reply. */
export async function sendFile<T>(method: string, path: string, file: Blob): Promise<T> {
  return content<T>(await http.fetch(method, path, { headers: { "Content-Type": "application/octet-stream" }, body: file }));
}

/** The path of a file of a session, name by name. */
export const filePath = (sessionId: string, path: string) =>
  `/v1/sessions/${encodeURIComponent(sessionId)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
