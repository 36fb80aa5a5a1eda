/**
 * Image file — reads the file that `avm image save` writes: a gzipped tar with `image.json` and the resources of the image.
 *
 * The file comes from anybody. Its digests are computed from its bytes, and a file that does not have those which it states is
 * refused; so are entries that the format does not know.
 */

import { EdgeError, invalid, tooLarge } from "./errors.ts";
import { sha256 } from "./ids.ts";
import type { PolicyRule } from "./policy.ts";
import type { Definition, ToolDefinition } from "./records.ts";

const FILE_MAX_BYTES = 33 * 1024 * 1024;
const UNPACKED_MAX_BYTES = 32 * 1024 * 1024;
const BLOCK_BYTES = 512;
const NAME = /^(?:image\.json|bundle\.json|blobs\/sha256\/([0-9a-f]{64}))$/;
/** Runtimes of tools whose code runs in a sandbox. */
const CODE: ReadonlySet<string> = new Set(["python", "javascript", "shell", "command", "builtin"]);
const ALTERED = "The file of the image was altered: its content does not have the digest that it states";

interface Rendered {
  tools?: RenderedTool[];
  sandbox?: unknown;
  skills?: unknown[];
  handoffs?: unknown[];
}

interface RenderedTool extends ToolDefinition {
  resolved?: { entry?: RenderedTool };
  sandbox?: unknown;
}

/** A definition as a server writes it. */
interface Written extends Omit<Definition, "tools" | "policy"> {
  tools?: string[];
  policy?: PolicyRule[];
  output?: unknown;
  rendered?: Rendered;
}

interface Manifest {
  format: number;
  name: string;
  description?: string;
  definitionName: string;
  digest: string;
  seal: string;
  definition: Written;
  lock?: { uri: string; digest: string }[];
}

interface BundleManifest {
  entries: { uri: string; digest: string; content: string; blobs?: string[] }[];
}

/** The definition in a file; an error for a file that is not whole. */
export async function readImageFile(file: ArrayBuffer): Promise<{ name: string; description?: string; definition: Definition }> {
  const files = untar(await unzip(file));
  const text = files.get("image.json");
  if (text === undefined) throw invalid("Not the file of an image: there is no image.json in it");
  const body = new TextDecoder("utf-8", { fatal: true }).decode(text);
  const manifest = parse<Manifest>(body, "image.json");
  if (manifest.format !== 1) throw invalid("The format of the file is not 1, the only one that is read here: update the Worker");
  const members = rawMembers(body);
  if (manifest.seal !== (await digest(withoutSeal(body, members))) || manifest.digest !== (await digest(members.get("definition")?.text ?? ""))) throw invalid(ALTERED);
  await checkBlobs(files, manifest.lock ?? []);
  const { name, description, definitionName } = manifest;
  return { name: definitionName || name, ...(description === undefined ? {} : { description }), definition: definitionOf(manifest) };
}

function definitionOf({ definition }: Manifest): Definition {
  const { systemPrompt, model, maxTokens, temperature, thinking, tools, policy, rendered } = definition;
  // Without them the agent would answer otherwise than on a server.
  for (const [name, value] of [["output", definition.output], ["skills", rendered?.skills?.[0]], ["handoffs", rendered?.handoffs?.[0]]]) {
    if (value !== undefined && value !== null) throw new EdgeError("not_available", `The image has ${String(name)}, which the edge does not have: run its agent on a server`);
  }
  const specs = new Map((rendered?.tools ?? []).map((tool) => [tool.name, target(tool)]));
  // A tool that is a name is one of the server's own; it is told of, and refused when it is called.
  const named = (tools ?? []).map((name) => specs.get(name) ?? { name, description: `The tool ${name} of a server`, runtime: "builtin" });
  const rest = [...specs.values()].filter((tool) => !named.some((other) => other.name === tool.name));
  const plain = { systemPrompt, model, maxTokens, temperature, thinking, ...(policy?.length ? { policy } : {}) };
  const all = [...named, ...rest].map((tool) => (rendered?.sandbox && CODE.has(tool.runtime) && !(tool as RenderedTool).sandbox ? { ...tool, inSandbox: true } : tool));
  return { ...(Object.fromEntries(Object.entries(plain).filter(([, value]) => value !== undefined && value !== null)) as Omit<Definition, "tools">), tools: all };
}

/** The tool whose request a tool makes: itself, or the one that it is a face of. */
function target(tool: RenderedTool): ToolDefinition {
  let found = tool;
  while (found.resolved?.entry !== undefined) found = found.resolved.entry;
  const { resolved: _, ...spec } = { ...found, name: tool.name, description: tool.description, ...(tool.inputSchema ? { inputSchema: tool.inputSchema } : {}) };
  return spec;
}

async function checkBlobs(files: Map<string, Uint8Array<ArrayBuffer>>, lock: readonly { uri: string; digest: string }[]): Promise<void> {
  const blobs = new Set<string>();
  for (const [name, body] of files) {
    const stated = NAME.exec(name)?.[1];
    if (stated === undefined) continue;
    if ((await sha256(body)) !== stated) throw invalid(`The archive is damaged: the bytes of sha256:${stated} have another digest`);
    blobs.add(`sha256:${stated}`);
  }
  const bundle = files.get("bundle.json");
  const entries = bundle === undefined ? [] : parse<BundleManifest>(new TextDecoder().decode(bundle), "bundle.json").entries;
  for (const entry of entries) {
    if (![entry.content, ...(entry.blobs ?? [])].every((name) => blobs.has(name))) throw invalid(`The archive is not whole: a part of ${entry.uri} is missing`);
  }
  const here = new Map(entries.map((entry) => [entry.uri, entry.digest]));
  for (const { uri, digest: wanted } of lock) {
    if (here.get(uri) !== wanted) throw invalid(`The file of the image was altered: ${uri} is not in it with the digest that it states`);
  }
}

async function digest(text: string): Promise<string> {
  return `sha256:${await sha256(new TextEncoder().encode(text))}`;
}

function parse<T>(body: string, name: string): T {
  try {
    return JSON.parse(body) as T;
  } catch {
    throw invalid(`${name} is not valid JSON`);
  }
}

interface Member {
  /** Where the name of the member begins, and where its value ends. */
  start: number;
  end: number;
  text: string;
}

/** The members of a JSON object as they are written: digests are of bytes, which writing them anew could change. */
export function rawMembers(body: string): Map<string, Member> {
  const members = new Map<string, Member>();
  let at = body.indexOf("{") + 1;
  while (at > 0 && body[at] === '"') {
    const start = at;
    const nameEnd = stringEnd(body, at);
    const name = JSON.parse(body.slice(at, nameEnd)) as string;
    const end = valueEnd(body, nameEnd + 1);
    members.set(name, { start, end, text: body.slice(nameEnd + 1, end) });
    at = body[end] === "," ? end + 1 : -1;
  }
  return members;
}

function withoutSeal(body: string, members: Map<string, Member>): string {
  const seal = members.get("seal");
  if (seal === undefined) return body;
  // With the comma that parts it from its neighbour.
  const before = body[seal.start - 1] === ",";
  return body.slice(0, before ? seal.start - 1 : seal.start) + body.slice(before ? seal.end : seal.end + 1);
}

function stringEnd(body: string, start: number): number {
  let at = start + 1;
  while (at < body.length && body[at] !== '"') at += body[at] === "\\" ? 2 : 1;
  return at + 1;
}

function valueEnd(body: string, start: number): number {
  let depth = 0;
  for (let at = start; at < body.length; at++) {
    const character = body[at];
    if (character === '"') at = stringEnd(body, at) - 1;
    else if (character === "{" || character === "[") depth++;
    else if (character === "}" || character === "]") {
      if (depth === 0) return at;
      depth--;
    } else if (character === "," && depth === 0) return at;
  }
  return body.length;
}

async function unzip(file: ArrayBuffer): Promise<Uint8Array<ArrayBuffer>> {
  if (file.byteLength > FILE_MAX_BYTES) throw tooLarge(`The file has ${file.byteLength} bytes, and may have ${FILE_MAX_BYTES}`);
  const stream = new Response(file).body?.pipeThrough(new DecompressionStream("gzip"));
  const parts: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const part of stream as unknown as AsyncIterable<Uint8Array>) {
      size += part.byteLength;
      if (size > UNPACKED_MAX_BYTES) throw tooLarge(`The file unpacks to more than ${UNPACKED_MAX_BYTES} bytes`);
      parts.push(part);
    }
  } catch (error) {
    if (error instanceof EdgeError) throw error;
    throw invalid("Not the file of an image: it is not gzip, or damaged");
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.byteLength;
  }
  return bytes;
}

/** The files of a tar: plain ones with the names of the format, and nothing else. */
function untar(tar: Uint8Array<ArrayBuffer>): Map<string, Uint8Array<ArrayBuffer>> {
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  const ascii = (at: number, length: number): string => String.fromCharCode(...tar.subarray(at, at + length)).replace(/\0.*$/s, "");
  for (let at = 0; at + BLOCK_BYTES <= tar.length && tar[at] !== 0; ) {
    const name = ascii(at, 100);
    const size = Number.parseInt(ascii(at + 124, 12).trim(), 8);
    const kind = ascii(at + 156, 1);
    if (!NAME.test(name) || !(kind === "0" || kind === "") || !(size >= 0) || files.has(name)) throw invalid("Not the file of an image: it holds something that the format does not know");
    const begin = at + BLOCK_BYTES;
    if (begin + size > tar.length) throw invalid("Not the file of an image: it is cut off");
    files.set(name, tar.slice(begin, begin + size));
    at = begin + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES;
  }
  return files;
}
