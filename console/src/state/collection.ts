/** Collections: sets of documents that are too large for a version of a knowledge base, which refers to one of their revisions. */

import type { DocumentView } from "../link/client.ts";
import { ApiError, http, request } from "../link/http.ts";
import { withQuery } from "./data.ts";
import { documentName } from "./knowledge.ts";

export const addressOf = (collection: string) => `/v1/collections/${encodeURIComponent(collection)}`;

export const documentsOf = (collection: string) => `${addressOf(collection)}/documents`;

export const documentAt = (collection: string, document: string) =>
  `${documentsOf(collection)}/${document.split("/").map(encodeURIComponent).join("/")}`;

/** Makes a collection. One that is there is used: files that were sent before a failure stay in it. */
export async function makeCollection(name: string, tenant: string | undefined): Promise<void> {
  try {
    await request("POST", withQuery("/v1/collections", { tenant }), { name });
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 409)) throw error;
  }
}

/** Sends files to a collection, one after the other. Returns a reference to the revision that has all of them. */
export async function sendFiles(collection: string, files: readonly File[], tenant: string | undefined, onProgress: (part: number) => void): Promise<string> {
  const total = files.reduce((sum, { size }) => sum + size, 0) || 1;
  let sent = 0;
  let revision = 0;
  for (const file of files) {
    const path = withQuery(documentAt(collection, documentName(file)), { tenant, title: file.name.replace(/\.[^.]*$/, "") });
    const before = sent;
    // The server goes by the name: what browsers say of the type differs from machine to machine.
    const stored = await http.send<DocumentView>("PUT", path, file, { mediaType: "application/octet-stream", onProgress: (part) => onProgress((before + part * file.size) / total) });
    revision = stored.revision ?? revision;
    sent += file.size;
    onProgress(sent / total);
  }
  return `${collection}@${revision}`;
}
