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
  /** A server that runs the tools which cannot run here; and the variable with the key for it. */
  NODE_URL?: string;
  NODE_KEY?: string;
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
}

const MAX_TOKENS = 4096;
const SILENCE_SECONDS = 120;
const LEASE_SECONDS = 60;
const WAIT_SECONDS = 24 * 60 * 60;

const seconds = (value: string | undefined, standard: number): number => (Number(value) > 0 ? Number(value) : standard) * 1000;

export const silenceMs = (env: Env, provider: Provider): number => provider.silenceSeconds === undefined ? seconds(env.SILENCE_SECONDS, SILENCE_SECONDS) : provider.silenceSeconds * 1000;
export const leaseMs = (env: Env): number => seconds(env.LEASE_SECONDS, LEASE_SECONDS);
export const waitMs = (env: Env): number => seconds(env.WAIT_SECONDS, WAIT_SECONDS);
export const maxTokens = (env: Env): number => (Number(env.MAX_TOKENS) > 0 ? Number(env.MAX_TOKENS) : MAX_TOKENS);

/** The provider and the name of a model, and the provider's key. A model without a provider is one of the default provider. */
export function modelOf(env: Env, wanted: string | undefined): { provider: Provider; key: string; model: string } {
  const standard = env.DEFAULT_MODEL ?? "";
  const full = wanted === undefined ? standard : wanted.includes("/") ? wanted : `${standard.split("/")[0]}/${wanted}`;
  const slash = full.indexOf("/");
  const provider = providers(env)[full.slice(0, Math.max(slash, 0))];
  if (provider === undefined) throw new EdgeError("driver_not_found", `There is no provider for the model ${JSON.stringify(shorten(full))}: set PROVIDERS and DEFAULT_MODEL`);
  const key = provider.keyVariable === undefined ? "" : (env as unknown as Record<string, unknown>)[provider.keyVariable];
  return { provider, key: typeof key === "string" ? key : "", model: full.slice(slash + 1) };
}

export function providers(env: Env): Record<string, Provider> {
  return JSON.parse(env.PROVIDERS ?? "{}") as Record<string, Provider>;
}
