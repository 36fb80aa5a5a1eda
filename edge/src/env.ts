/** Environment — the bindings and variables of the Worker, and the values that follow from them. */

import type { Container } from "./container.ts";
import { EdgeError, shorten } from "./errors.ts";
import type { Rerun } from "./records.ts";

export interface Env {
  CONTAINERS: DurableObjectNamespace<Container>;
  KEYS: KVNamespace;
  IMAGES: R2Bucket;
  TURNS: Queue<Rerun>;
  /** `keys` (default): a request needs a key; `open`: nobody has to say who they are. */
  ACCESS?: string;
  /** Mixed into the digests of keys. */
  KEY_PEPPER?: string;
  /** JSON: provider name -> { kind, baseUrl, keyVariable }. */
  PROVIDERS?: string;
  /** `<provider>/<model>`. */
  DEFAULT_MODEL?: string;
  MAX_TOKENS?: string;
  /** How long a provider may be silent. */
  SILENCE_SECONDS?: string;
  /** How often the object looks whether the Worker of a running turn is still there. */
  LEASE_SECONDS?: string;
  /** How long a call waits for somebody. */
  WAIT_SECONDS?: string;
  /** A server that runs the tools which cannot run here, and books the entries of the ledger; and the key for it. */
  NODE_URL?: string;
  NODE_KEY?: string;
  /** JSON: tenant -> the variable with its key for the server, instead of NODE_KEY. */
  NODE_KEYS?: string;
  /** JSON: name of a secret of tools -> { variable, hosts, tenants? }. */
  TOOL_SECRETS?: string;
  /** How often the key of a socket is looked up again on which something is said or heard; and on which nothing is. */
  KEY_SECONDS?: string;
  KEY_IDLE_SECONDS?: string;
  /** Hosts of the operator's own network that tools may call, with ports, separated by commas. */
  ALLOW_HOSTS?: string;
  /** `1`: the object logs each time it wakes. */
  LOG_OBJECTS?: string;
}

export interface Provider {
  kind: "anthropic" | "openai";
  baseUrl: string;
  /** The variable that holds the key. */
  keyVariable?: string;
  /** How long it may be silent, instead of SILENCE_SECONDS. */
  silenceSeconds?: number;
  /** Tokens that its models read and write together, instead of what is known of them. */
  contextTokens?: number;
}

const MAX_TOKENS = 4096;
const SILENCE_SECONDS = 120;
const LEASE_SECONDS = 60;
const WAIT_SECONDS = 24 * 60 * 60;

const KEY_SECONDS = 60;
const KEY_IDLE_SECONDS = 30 * 60;

const seconds = (value: string | undefined, standard: number): number => (Number(value) > 0 ? Number(value) : standard) * 1000;

export const silenceMs = (env: Env, provider: Provider): number => provider.silenceSeconds === undefined ? seconds(env.SILENCE_SECONDS, SILENCE_SECONDS) : provider.silenceSeconds * 1000;
export const leaseMs = (env: Env): number => seconds(env.LEASE_SECONDS, LEASE_SECONDS);
export const waitMs = (env: Env): number => seconds(env.WAIT_SECONDS, WAIT_SECONDS);
export const keyMs = (env: Env): number => seconds(env.KEY_SECONDS, KEY_SECONDS);
export const keyIdleMs = (env: Env): number => seconds(env.KEY_IDLE_SECONDS, KEY_IDLE_SECONDS);
export const maxTokens = (env: Env): number => (Number(env.MAX_TOKENS) > 0 ? Number(env.MAX_TOKENS) : MAX_TOKENS);

/** The key of a tenant for the server. */
export function nodeKey(env: Env, tenant: string): string {
  const named = parsed<Record<string, string>>(env.NODE_KEYS, "NODE_KEYS");
  return Object.hasOwn(named, tenant) ? variable(env, named[tenant]) : (env.NODE_KEY ?? "");
}

interface ToolSecret {
  variable: string;
  /** Where it may be sent to, with the port if it is not the usual one. */
  hosts: string[];
  /** Whose tools may use it; absent: those of all tenants. */
  tenants?: string[];
}

/** The value of a secret for a tool of a tenant that calls a host. */
export function toolSecret(env: Env, tenant: string, name: string, host: string): string {
  const secrets = parsed<Record<string, ToolSecret>>(env.TOOL_SECRETS, "TOOL_SECRETS");
  const secret = Object.hasOwn(secrets, name) ? secrets[name] : undefined;
  if (secret === undefined || !(secret.tenants?.includes(tenant) ?? true)) throw new EdgeError("secret_not_granted", `There is no secret ${shorten(name)} here for this tool: set TOOL_SECRETS`);
  if (!secret.hosts.includes(host)) throw new EdgeError("secret_not_granted", `The secret ${shorten(name)} may not be sent to ${shorten(host)}`);
  const value = variable(env, secret.variable);
  if (value === "") throw new EdgeError("secret_not_granted", `The secret ${shorten(name)} has no value: its variable is not set`);
  return value;
}

function variable(env: Env, name: string | undefined): string {
  const value = name === undefined ? undefined : (env as unknown as Record<string, unknown>)[name];
  return typeof value === "string" ? value : "";
}

function parsed<T>(text: string | undefined, name: string): T {
  try {
    return JSON.parse(text || "{}") as T;
  } catch {
    throw new EdgeError("config_invalid", `The variable ${name} is not valid JSON`);
  }
}

/** The provider and the name of a model, and the provider's key. A model without a provider is one of the default provider. */
export function modelOf(env: Env, wanted: string | undefined): { name: string; provider: Provider; key: string; model: string } {
  const standard = env.DEFAULT_MODEL ?? "";
  const full = wanted === undefined ? standard : wanted.includes("/") ? wanted : `${standard.split("/")[0]}/${wanted}`;
  const slash = full.indexOf("/");
  const name = full.slice(0, Math.max(slash, 0));
  const known = providers(env);
  const provider = Object.hasOwn(known, name) ? known[name] : undefined;
  if (provider === undefined) throw new EdgeError("driver_not_found", `There is no provider for the model ${JSON.stringify(shorten(full))}: set PROVIDERS and DEFAULT_MODEL`);
  return { name, provider, key: variable(env, provider.keyVariable), model: full.slice(slash + 1) };
}

export function providers(env: Env): Record<string, Provider> {
  return parsed<Record<string, Provider>>(env.PROVIDERS, "PROVIDERS");
}

const NUMBERS = ["SILENCE_SECONDS", "LEASE_SECONDS", "WAIT_SECONDS", "KEY_SECONDS", "KEY_IDLE_SECONDS", "MAX_TOKENS"] as const;

/** An error that names the variable which is not what it must be: nobody is served by half of a configuration. */
export function checkVariables(env: Env): void {
  const wrong = (what: string): EdgeError => new EdgeError("config_invalid", `The variable ${what}: correct it, and deploy the Worker again`);
  for (const name of NUMBERS) if (env[name] && !(Number(env[name]) > 0 && Number(env[name]) < Infinity)) throw wrong(`${name} is a number above 0, not ${JSON.stringify(shorten(env[name]))}`);
  if (env.ACCESS && env.ACCESS !== "keys" && env.ACCESS !== "open") throw wrong(`ACCESS is keys or open, not ${JSON.stringify(shorten(env.ACCESS))}`);
  for (const [name, { kind, baseUrl, silenceSeconds = 1, contextTokens = 1 }] of Object.entries(providers(env))) {
    if (kind !== "anthropic" && kind !== "openai") throw wrong(`PROVIDERS: the kind of ${name} is anthropic or openai, not ${JSON.stringify(kind)}`);
    if (!URL.canParse(baseUrl)) throw wrong(`PROVIDERS: the baseUrl of ${name} is an address, not ${JSON.stringify(baseUrl)}`);
    if (!(silenceSeconds > 0) || !(contextTokens > 0)) throw wrong(`PROVIDERS: silenceSeconds and contextTokens of ${name} are numbers above 0`);
  }
  parsed(env.NODE_KEYS, "NODE_KEYS");
  parsed(env.TOOL_SECRETS, "TOOL_SECRETS");
}
