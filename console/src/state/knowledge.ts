/** The documents of a knowledge base, as its content has them. */

import { base64, textOf } from "./bytes.ts";

export interface KnowledgeDocument {
  id: string;
  title?: string;
  text?: string;
  file?: { data?: string; blob?: string; size?: number };
  mime?: string;
}

/** Either documents or a revision of a collection. */
export interface KnowledgeContent {
  documents?: KnowledgeDocument[];
  collection?: string;
  chunking?: { size: number; overlap?: number } | undefined;
  retrieval?: { k?: number | undefined; mode?: string; inject?: number | undefined };
}

/** Files of more bytes together become a collection: a version holds 4 MiB, and files grow by a third in JSON. */
export const INLINE_MAX_BYTES = 2 * 1024 * 1024;

/** The name of a file as that of a document, without what cannot stand in a URI. */
export const documentName = ({ name }: File) => name.replaceAll(/[\s#]+/g, "-");

/** Texts that are kept as texts, so that versions can be compared. */
const TEXTS: Readonly<Record<string, string>> = { md: "text/markdown", txt: "text/plain" };

/** A file as a document. Its name is its id. */
export async function documentOf(file: File): Promise<KnowledgeDocument> {
  const id = documentName(file);
  const mime = TEXTS[id.split(".").at(-1)?.toLowerCase() ?? ""];
  const data = new Uint8Array(await file.arrayBuffer());
  // A text in another encoding goes as a file: the server knows more of them.
  const text = mime === undefined ? undefined : textOf(data);
  return text === undefined ? { id, file: { data: base64(data) } } : { id, text, mime };
}

/** The documents with others beside them; one of the same id takes the place of the former. */
export function withDocuments(documents: readonly KnowledgeDocument[], added: readonly KnowledgeDocument[]): KnowledgeDocument[] {
  const ids = new Set(added.map(({ id }) => id));
  return [...documents.filter(({ id }) => !ids.has(id)), ...added];
}

/** How large a document is: the bytes of its file, or of its text. */
export const sizeOf = ({ text, file }: KnowledgeDocument) => file?.size ?? new TextEncoder().encode(text ?? "").length;
