/** The records of the builder's pages, as the management API tells them. */

import type { BuiltinToolView as BuiltinTool, ContentView as Content, DefinitionRecord as Definition, ImageRecord as Image, LockRecord as Lock, ModelView as Model, ResourceRecord as Resource, UpgradeView as Upgrade, VersionView as Version } from "../link/client.ts";
import { withQuery } from "./data.ts";
import { inLanguage } from "../words/format.ts";

export type { BuiltinTool, Content, Definition, Image, Lock, Model, Resource, Upgrade, Version };

export const TYPES = ["prompts", "tools", "agents", "knowledge", "skills", "sandboxes"] as const;

/** The address of a resource on its page. */
export const resourcePage = (id: string, query: Record<string, string | undefined> = {}) => withQuery(`/resources/${encodeURIComponent(id)}`, query);

/** What a resource is for. Those that ship with the server say it in two languages; the reader's is shown. */
export const descriptionOf = ({ owner, description }: { owner: string; description?: string }, language: string) =>
  owner === "system" && description !== undefined ? inLanguage(description, language) : description;

/** The URI without its version, and the version. */
export function splitUri(uri: string): [bare: string, version: string | undefined] {
  const at = uri.indexOf("@");
  return at === -1 ? [uri, undefined] : [uri.slice(0, at), uri.slice(at + 1).split("#")[0]];
}

/** A content as people compare and edit it: the text of a prompt that has nothing else, else JSON. */
export function readableContent(type: string, content: unknown): string {
  return isPlainPrompt(type, content) ? content.text : JSON.stringify(content, null, 2);
}

export function isPlainPrompt(type: string, content: unknown): content is { text: string } {
  return type === "prompts" && typeof content === "object" && content !== null && Object.keys(content).join() === "text";
}

/** A content that a new resource begins with. */
export function firstContent(type: string): string {
  const contents: Record<string, unknown> = {
    tools: { runtime: "http", entry: `GET ${location.origin}/v1/{name}`, description: "", inputSchema: { type: "object", properties: { name: { type: "string" } } } },
    agents: { systemPrompt: "", tools: [] },
    knowledge: { documents: [{ id: "first", text: "" }] },
    skills: { text: "---\nname: my-skill\ndescription: What it does, and when to use it.\n---\n\n" },
    sandboxes: { runtime: "python" },
  };
  return type === "prompts" ? "" : JSON.stringify(contents[type] ?? {}, null, 2);
}

/** The variables `{{name}}` of a text, each once. */
export function variablesOf(text: string): string[] {
  return [...new Set([...text.matchAll(/\{\{\s*([\p{L}_][\p{L}\p{N}_.-]*)\s*\}\}/gu)].map((match) => match[1]!))];
}

/** A variable as it is sent: JSON where it is JSON, else a text. */
export function valueOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Characters of a digest that tell it apart. */
const DIGEST_SHOWN = 19;

export const beginningOf = (digest: string) => `${digest.slice(0, DIGEST_SHOWN)}…`;
