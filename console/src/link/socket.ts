/** The one connection of a tab. A tab that nobody looks at has none after a while; the cursors make its return exact. */

import { signal } from "@preact/signals";
import { Channel, type ChannelState } from "./client.ts";
import type { EventFrame } from "./frames.ts";
import { identify } from "./who.ts";

const PARK_AFTER_MS = 300_000;

type Listener = (frame: EventFrame) => void;

// Tests have no page.
const origin = globalThis.location?.origin ?? "";
const channel = new Channel({ url: `${origin.replace(/^http/, "ws")}/ws`, persistent: true, overHttp: true });

export const linkState = signal<ChannelState>("connecting");

let parking: ReturnType<typeof setTimeout> | undefined;
const openers = new Set<() => void>();

channel.onState((state, closed) => {
  linkState.value = state;
  if (state === "open") for (const opener of openers) opener();
  // The session has ended; or the server is away, and then it is asked again.
  if (state === "refused") identify().catch(() => void channel.connect());
  // A browser does not say why a socket was not opened.
  else if (closed?.wasOpen === false) identify().catch(() => undefined);
});

/** Opens the connection and keeps it open until `disconnect`. */
export function connect(): void {
  window.addEventListener("online", reconnect);
  document.addEventListener("visibilitychange", onVisibility);
  void channel.connect();
}

export function disconnect(): void {
  window.removeEventListener("online", reconnect);
  document.removeEventListener("visibilitychange", onVisibility);
  clearTimeout(parking);
  channel.disconnect();
}

const reconnect = () => channel.reconnect();

function onVisibility(): void {
  clearTimeout(parking);
  if (document.hidden) parking = setTimeout(() => channel.disconnect(), PARK_AFTER_MS);
  else if (channel.state === "waiting") channel.reconnect();
  else if (channel.state === "closed") void channel.connect();
}

/** Calls the listener with every new event, exactly once for an open session; returns the function that ends it. */
export const onEvent = (listener: Listener): (() => void) => channel.on(listener as never);

/** Calls the listener with every event as it comes, also with one that comes again. */
export const onNotice = (listener: Listener): (() => void) => channel.onFrame(listener as never);

/** Calls the function now if the connection is open, and whenever it opens again. */
export function onOpen(opener: () => void): () => void {
  openers.add(opener);
  if (channel.state === "open") opener();
  return () => openers.delete(opener);
}

export const ask = channel.ask.bind(channel);
export const openSession = channel.openSession.bind(channel);
export const leaveSession = channel.leaveSession.bind(channel);
export const followContainer = channel.followContainer.bind(channel);
