/** The identity of the user: asked for once at the start, and after signing in. The server knows it by a cookie. */

import type { BrowserSessionView as Device } from "./client.ts";
import { signal } from "@preact/signals";
import { forget } from "./copies.ts";
import { ApiError, request } from "./http.ts";

export type { Device };

export interface Identity {
  tenantId: string;
  tenant?: string;
  auth?: "on" | "off";
  userId?: string;
  user?: string;
  keyId?: string;
  role?: string;
  permissions: string[];
  containers?: string[];
}

type News = "signed-in" | "signed-out";

/** `undefined` while unknown, `null` when the user has to sign in. */
export const identity = signal<Identity | null | undefined>(undefined);
/** The reason why a session has ended, as the server names it; empty for a user who has signed out or never signed in. */
export const endReason = signal("");
/** Whether the session or the key of the user has ended by itself. What they have typed stays behind the sign-in page, until they are back. */
export const hasExpired = signal(false);

/** The identity of the last visit. It holds names and permissions, and nothing that opens a door. */
const LAST = "avm.identity";

/** Reasons after which a user comes back with another key. */
const RETURNING = new Set(["expired", "revoked"]);

let lastOwner: string | undefined;

/** The other tabs of this browser, which have the same cookie. */
let tabs: BroadcastChannel | undefined;

/** The name under which this browser keeps what belongs to the present user. */
export function ownerName(): string {
  const who = identity.value;
  return who ? nameOf(who) : "";
}

const nameOf = (who: Identity) => JSON.stringify([who.tenantId, who.userId ?? who.keyId]);

/** Follows the other tabs: who signs in or out in one does in all. */
export function watchTabs(): void {
  tabs = new BroadcastChannel("avm.who");
  tabs.onmessage = (message: MessageEvent<News>) => {
    if (message.data === "signed-out") leave("");
    else void identify().catch(() => undefined);
  };
}

export async function identify(): Promise<void> {
  try {
    const next = await request<Identity>("GET", "/v1/auth/whoami");
    const owner = JSON.stringify([next.tenantId, next.userId, next.keyId]);
    // Whoever comes back after their key has run out has another one.
    const isBack = hasExpired.value && nameOf(next) === ownerName();
    if (lastOwner !== undefined && lastOwner !== owner && !isBack) {
      // Nothing of another user stays in memory.
      location.reload();
      return;
    }
    lastOwner = owner;
    localStorage.setItem(LAST, JSON.stringify(next));
    identity.value = next;
    hasExpired.value = false;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    leave(error.reason);
  }
}

/** Throws `ApiError` for a key that is not valid. The key is exchanged for a cookie and kept nowhere. */
export async function signIn(key: string, keep: boolean): Promise<void> {
  await request("POST", "/v1/auth/session", { key, keep });
  await identify();
  tell("signed-in");
}

/** How this server lets people in: with a key always, at an identity provider where one is named. */
export const offered = signal<{ auth: "on" | "off"; version: string; oidc?: string } | undefined>(undefined);

export async function loadMethods(): Promise<void> {
  offered.value = await request("GET", "/v1/auth/methods");
}

/** Leaves this page for that of the identity provider. It leads back to `next`. */
export async function oidcStart(about: { next?: string; keep?: boolean; invitation?: string }): Promise<void> {
  const { location: address } = await request<{ location: string }>("POST", "/v1/auth/oidc/start", about);
  location.assign(address);
}

export async function signOut(): Promise<void> {
  try {
    await request("DELETE", "/v1/auth/session");
  } catch (error) {
    // A session that has ended already needs no end.
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  }
  leave("");
  tell("signed-out");
}

export async function listDevices(): Promise<Device[]> {
  return (await request<{ items: Device[] }>("GET", "/v1/auth/sessions?limit=100")).items;
}

export function signOutDevice(device: Device): Promise<void> {
  if (device.current) return signOut();
  return request("DELETE", `/v1/auth/sessions/${encodeURIComponent(device.browserSessionId)}`);
}

/** The user of the last visit, while the server cannot be reached; whether there is one. Signing out forgets them. */
export function identifyOffline(): boolean {
  const stored = localStorage.getItem(LAST);
  if (stored === null) return false;
  const last = JSON.parse(stored) as Identity;
  lastOwner = JSON.stringify([last.tenantId, last.userId, last.keyId]);
  identity.value = last;
  return true;
}

function leave(reason: string): void {
  localStorage.removeItem(LAST);
  void forget(ownerName());
  endReason.value = reason;
  hasExpired.value = RETURNING.has(reason) && Boolean(identity.value);
  if (!hasExpired.value) identity.value = null;
  // Drafts go; messages that wait for a connection are kept for their owner.
  sessionStorage.clear();
}

function tell(news: News): void {
  tabs?.postMessage(news);
}
