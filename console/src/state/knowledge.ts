/** The documents of a knowledge base, as its content has them. */

export interface KnowledgeDocument {
  id: string;
  title?: string;
  text?: string;
  file?: { data?: string; blob?: string; size?: number };
  mime?: string;
}

export interface KnowledgeContent {
  documents: KnowledgeDocument[];
}

/** Texts that are kept as texts, so that versions can be compared. */
const TEXTS: Readonly<Record<string, string>> = { md: "text/markdown", txt: "text/plain" };

/** A file as a document. Its name is its id, without what cannot stand in a URI. */
export async function documentOf(file: File): Promise<KnowledgeDocument> {
  const id = file.name.replaceAll(/[\s#]+/g, "-");
  const mime = TEXTS[id.split(".").at(-1)?.toLowerCase() ?? ""];
  const data = new Uint8Array(await file.arrayBuffer());
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

function textOf(data: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    // Another encoding: the server knows more of them.
    return undefined;
  }
}

const SLICE_BYTES = 32_768;

function base64(data: Uint8Array): string {
  let text = "";
  for (let at = 0; at < data.length; at += SLICE_BYTES) text += String.fromCodePoint(...data.subarray(at, at + SLICE_BYTES));
  return btoa(text);
}
