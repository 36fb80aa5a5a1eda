/** Sending a file to the management API. It may take long, so nothing but the user ends it. */

import { ApiError, errorOf } from "./http.ts";

export async function sendFile<T>(path: string, file: Blob): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file });
  } catch {
    throw new ApiError(0, "unreachable", "The server cannot be reached");
  }
  const text = await response.text();
  if (!response.ok) throw errorOf(response.status, text);
  return JSON.parse(text) as T;
}
