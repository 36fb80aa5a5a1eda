/**
 * Access — who a credential belongs to, and which containers are theirs.
 *
 * Keys are not stored: the namespace `KEYS` holds, under the digest of each, its tenant and its containers. The name of every
 * object begins with the tenant, and a principal that has containers of its own reaches no other.
 */

import type { Env } from "./env.ts";
import { EdgeError, shorten, unauthenticated } from "./errors.ts";
import { checkContainer, type Place, placeOf } from "./ids.ts";

/** How long a Worker may go on with what it knows of a key. */
const KEY_CACHE_SECONDS = 60;
const TOKEN_MAX = 4_096;
const SUBPROTOCOL = "avm.bearer.";
const DEFAULT_TENANT = "default";
const DEFAULT_CONTAINER = "default";

interface KeyRecord {
  tenant?: string;
  /** Absent: all containers of the tenant. */
  containers?: string[];
  expiresAt?: number;
  /** Whether it may delete entries of the ledger that somebody has stored. */
  ledger?: boolean;
}

export class Principal {
  readonly tenant: string;
  readonly mayTakeEntries: boolean;
  #containers: Map<Place, string> | undefined;

  private constructor(tenant: string, containers: Map<Place, string> | undefined, mayTakeEntries: boolean) {
    this.tenant = tenant;
    this.mayTakeEntries = mayTakeEntries;
    this.#containers = containers;
  }

  static async of(tenant: string, containers: readonly string[] | undefined, mayTakeEntries = false): Promise<Principal> {
    const named = containers && new Map(await Promise.all(containers.map(async (name): Promise<[Place, string]> => [await placeOf(name), name])));
    return new Principal(tenant, named, mayTakeEntries);
  }

  /** The container that clients mean who name none. */
  get home(): string {
    return this.#containers?.values().next().value ?? DEFAULT_CONTAINER;
  }

  /** The containers that the principal may use; undefined for all of its tenant. */
  get containers(): string[] | undefined {
    return this.#containers && [...this.#containers.values()];
  }

  reaches(place: Place): boolean {
    return this.#containers === undefined || this.#containers.has(place);
  }

  /** The place of a container that the principal names. */
  async place(name: unknown): Promise<Place> {
    const container = checkContainer(name);
    const place = await placeOf(container);
    if (!this.reaches(place)) throw new EdgeError("container_forbidden", `The container ${shorten(container)} is not one of yours`);
    return place;
  }

  /** The name of the object at a place. */
  object(place: Place): string {
    return `${this.tenant}/${place}`;
  }

  /** Whether both are the same: a key that was changed meanwhile is another one. */
  equals(other: Principal): boolean {
    return this.tenant === other.tenant && JSON.stringify(this.containers) === JSON.stringify(other.containers);
  }

  /** The object that lists the containers of the tenant. */
  get directory(): string {
    return `${this.tenant}/containers`;
  }
}

/** The owner of a credential. */
export async function authenticate(env: Env, token: string): Promise<Principal> {
  if (env.ACCESS === "open") return await Principal.of(DEFAULT_TENANT, undefined);
  if (token === "" || token.length > TOKEN_MAX) throw unauthenticated("The credentials are missing or invalid");
  const text = await env.KEYS.get(`key:${await digestOf(env, token)}`, { cacheTtl: KEY_CACHE_SECONDS });
  const key = text === null ? undefined : (JSON.parse(text) as KeyRecord);
  if (key === undefined || (key.expiresAt !== undefined && key.expiresAt <= Date.now())) throw unauthenticated("The credentials are missing or invalid");
  return await Principal.of(key.tenant ?? DEFAULT_TENANT, key.containers, key.ledger === true);
}

/** HMAC-SHA256 of a key under the pepper of the deployment. */
async function digestOf(env: Env, token: string): Promise<string> {
  const encoder = new TextEncoder();
  // An HMAC needs a key; without a pepper it is a byte of zero.
  const pepper = await crypto.subtle.importKey("raw", encoder.encode(env.KEY_PEPPER || "\u0000"), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const digest = new Uint8Array(await crypto.subtle.sign("HMAC", pepper, encoder.encode(token)));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const bearer = (value: string | null | undefined): string => /^bearer +(.*)$/i.exec((value ?? "").trim())?.[1]?.trim() ?? "";

const protocolsOf = (request: Request): string[] => (request.headers.get("sec-websocket-protocol") ?? "").split(",").map((name) => name.trim());

/** The subprotocol that a credential came as. */
export const subprotocolOf = (request: Request): string | undefined => protocolsOf(request).find((name) => name.startsWith(SUBPROTOCOL));

/** The credential of a request; undefined if it has none. More than one is refused. */
export function credentialOf(request: Request): string | undefined {
  const header = request.headers.get("authorization");
  const query = new URL(request.url).searchParams.getAll("token");
  const tokens = [...(header === null ? [] : [bearer(header)]), ...query, ...protocolsOf(request).filter((name) => name.startsWith(SUBPROTOCOL)).map((name) => name.slice(SUBPROTOCOL.length))];
  if (tokens.length > 1) throw new EdgeError("invalid_input", "Send credentials once: in one Authorization header, as ?token=, or as a subprotocol");
  return tokens[0];
}
