/** The identity of the user: asked for once at the start, and after signing in. */

import { signal } from "@preact/signals";
import { ApiError, key, request } from "./http.ts";

export interface Identity {
  tenantId: string;
  tenant?: string;
  auth?: "on" | "off";
  user?: string;
  role?: string;
  permissions: string[];
  containers?: string[];
}

/** `undefined` while unknown, `null` when the user has to sign in. */
export const identity = signal<Identity | null | undefined>(undefined);

export async function identify(): Promise<void> {
  try {
    identity.value = await request<Identity>("GET", "/v1/auth/whoami");
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    key.set(null);
    identity.value = null;
  }
}

/** Throws `ApiError` for a key that is not valid; the key is kept only if it is. */
export async function signIn(candidate: string): Promise<void> {
  identity.value = await request<Identity>("GET", "/v1/auth/whoami", undefined, candidate);
  key.set(candidate);
}

export function signOut(): void {
  key.set(null);
  identity.value = null;
}

/** The subprotocols of a socket: a ticket for one connection, so that no key is in an address. */
export async function socketProtocols(): Promise<string[]> {
  if (key.get() === null) return [];
  const { token } = await request<{ token: string }>("POST", "/v1/auth/ws-token");
  return [`avm.bearer.${token}`];
}
