/** The records of the builder's pages, as the management API tells them. */

import { withQuery } from "./data.ts";

export interface Definition {
  name: string;
  description?: string;
  systemPrompt?: string;
  model?: string;
  tools?: string[];
  sandbox?: string;
  knowledge?: string[];
  variables?: Record<string, unknown>;
  policy?: unknown[];
  temperature?: number;
  maxTokens?: number;
  thinking?: number;
  /** Of an agent of the resource centre. */
  uri?: string;
}

export interface Lock {
  uri: string;
  version: string;
  digest: string;
}

export interface Image {
  imageId: string;
  containerId: string;
  sessionId: string;
  name: string;
  description?: string;
  createdAt: number;
  updatedAt: number;
  online: boolean;
  definitionName: string;
  digest: string;
  systemPrompt?: string;
  systemPromptRef?: string;
  definitionRef?: string;
  lock?: Lock[];
  behind?: number;
  config?: {
    model: string;
    maxTokens: number;
    tools: string[];
    systemPrompt?: string;
    temperature?: number;
    thinking?: number;
    variables?: Record<string, unknown>;
    sandbox?: string;
    knowledge?: string[];
    unavailable?: string[];
  };
  written?: Definition;
}

export interface Upgrade {
  changes: { uri: string; from: string; to: string }[];
  diff: Record<string, { before?: unknown; after?: unknown }>;
  applied: boolean;
  warnings?: string[];
}

export interface Model {
  name: string;
  window: number;
  isDefault?: boolean;
  pictures?: boolean;
  tools?: boolean;
  price?: { input: number; output: number };
}

export interface BuiltinTool {
  name: string;
  description: string;
  unavailable?: string;
}

export interface Resource {
  id: string;
  uri: string;
  type: string;
  owner: string;
  name: string;
  visibility: "private" | "public";
  createdAt: number;
  updatedAt: number;
  latest?: string;
  description?: string;
  tags?: string[];
  deprecated?: string;
  uses?: number;
}

export interface Version {
  version: string;
  digest: string;
  size: number;
  createdAt: number;
  yankedAt?: number;
  createdBy?: string;
}

export interface Content {
  id: string;
  uri: string;
  resource: Resource;
  version: Version;
  content: unknown;
  schema?: unknown;
  dependencies?: Record<string, string>;
  pointers?: Record<string, string>;
}

export const TYPES = ["prompts", "tools", "agents", "knowledge", "sandboxes"] as const;

/** The address of a resource on its page. */
export const resourcePage = (id: string, query: Record<string, string | undefined> = {}) => withQuery(`/resources/${encodeURIComponent(id)}`, query);

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
