/** The one connection of a tab: commands with replies, events of the sessions in view, and coming back after a loss. */

import { signal } from "@preact/signals";
import { decodeFrame, type EventFrame } from "./frames.ts";
import { backoffMs, Resume, type Subscription } from "./resume.ts";
import { identify } from "./who.ts";

/** `parked`: closed by us, because nobody looks at the tab. */
export type LinkState = "connecting" | "open" | "waiting" | "refused" | "parked";

export class CommandError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const COMMAND_DEADLINE_MS = 30_000;
/** A connection that is not open by then is given up: a browser waits for minutes. */
const OPEN_DEADLINE_MS = 8_000;
const PARK_AFTER_MS = 300_000;
/** Close codes after which the same credentials are not tried again. */
const REFUSED = new Set([4401, 4403, 4408]);

type Listener = (frame: EventFrame) => void;
interface Pending {
  resolve: (data: never) => void;
  reject: (error: Error) => void;
  timer: ReturnType<typeof setTimeout>;
}

export const linkState = signal<LinkState>("connecting");

let socket: WebSocket | null = null;
let attempt = 0;
let retry: ReturnType<typeof setTimeout> | undefined;
let parking: ReturnType<typeof setTimeout> | undefined;
let number = 0;
let wanted = false;
let isParked = false;
const resume = new Resume();
const pending = new Map<string, Pending>();
/** Commands given while the connection was being opened. They are sent when it is open, and rejected when it is not opened. */
const unsent: string[] = [];
const listeners = new Set<Listener>();
const observers = new Set<Listener>();
const openers = new Set<() => void>();

/** Opens the connection and keeps it open until `disconnect`. */
export function connect(): void {
  if (wanted) return;
  wanted = true;
  window.addEventListener("online", reconnectNow);
  document.addEventListener("visibilitychange", onVisibility);
  open();
}

export function disconnect(): void {
  wanted = false;
  window.removeEventListener("online", reconnectNow);
  document.removeEventListener("visibilitychange", onVisibility);
  clearTimeout(retry);
  clearTimeout(parking);
  socket?.close();
  socket = null;
}

/** Calls the listener with every new event, exactly once for an open session; returns the function that ends it. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Calls the listener with every event as it comes, also with one that comes again. */
export function onNotice(listener: Listener): () => void {
  observers.add(listener);
  return () => observers.delete(listener);
}

/** Calls the function now if the connection is open, and whenever it opens again. */
export function onOpen(opener: () => void): () => void {
  openers.add(opener);
  if (linkState.value === "open") opener();
  return () => openers.delete(opener);
}

/** Reads a session and follows it: its events come to the listeners from the end of the page that is returned. */
export async function openSession<T extends { logCursor?: string }>(sessionId: string, limit: number): Promise<T> {
  resume.open(sessionId);
  return ask<T>("session_history", { sessionId, order: "newest", limit, follow: true }, (page) =>
    resume.follow(sessionId, Number(page.logCursor ?? 0)),
  );
}

/** From now on only whole messages of the session are heard. */
export function leaveSession(sessionId: string): void {
  tell(resume.leave(sessionId));
}

/** Hears of the sessions of a container, without deltas. */
export function followContainer(containerId: string): void {
  const subscription = resume.list(containerId);
  if (subscription !== undefined) tell(subscription);
}

function tell(subscription: Subscription): void {
  if (linkState.value === "open") socket?.send(JSON.stringify(subscription));
}

/** Sends a command and resolves with the data of its reply. Rejects with `CommandError`. `at` is called before the next frame is read. */
export function ask<T>(name: string, data: Record<string, unknown> = {}, at?: (data: T) => void): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    if (socket === null || (linkState.value !== "open" && linkState.value !== "connecting")) {
      reject(new CommandError("offline", "There is no connection to the server"));
      return;
    }
    const requestId = `c${(number += 1)}`;
    const timer = setTimeout(() => {
      pending.delete(requestId);
      reject(new CommandError("request_timeout", "The server has not answered within 30 seconds"));
    }, COMMAND_DEADLINE_MS);
    const settle = (reply: T) => {
      at?.(reply);
      resolve(reply);
    };
    pending.set(requestId, { resolve: settle as (data: never) => void, reject, timer });
    const frame = JSON.stringify({
      type: `${name}_request`,
      timestamp: Date.now(),
      data: { ...data, requestId },
      source: "command",
      category: "request",
      intent: "request",
    });
    if (linkState.value === "open") socket.send(frame);
    else unsent.push(frame);
  });
}

function open(): void {
  clearTimeout(retry);
  linkState.value = "connecting";
  const opened = new WebSocket(`${location.origin.replace(/^http/, "ws")}/ws`);
  let isWelcome = false;
  socket = opened;
  const overdue = setTimeout(() => {
    if (!isWelcome && opened === socket) closed(opened, 0, false);
    if (!isWelcome) opened.close();
  }, OPEN_DEADLINE_MS);
  opened.onopen = () => {
    clearTimeout(overdue);
    isWelcome = true;
    attempt = 0;
    linkState.value = "open";
    for (const subscription of resume.subscriptions()) opened.send(JSON.stringify(subscription));
    for (const frame of unsent.splice(0)) opened.send(frame);
    for (const opener of openers) opener();
  };
  opened.onmessage = (message) => receive(String(message.data));
  opened.onclose = (event) => {
    clearTimeout(overdue);
    closed(opened, event.code, isWelcome);
  };
}

function closed(closedSocket: WebSocket, code: number, wasWelcome: boolean): void {
  if (closedSocket !== socket) return;
  socket = null;
  unsent.length = 0;
  for (const [requestId, { reject, timer }] of pending) {
    clearTimeout(timer);
    pending.delete(requestId);
    reject(new CommandError("offline", "The connection was lost before the reply"));
  }
  if (!wanted) return;
  if (REFUSED.has(code)) {
    linkState.value = "refused";
    void identify().catch(later);
    return;
  }
  // A browser does not say why a socket was not opened: either the session has ended, or the server is away.
  if (!wasWelcome) void identify().catch(() => undefined);
  if (isParked) {
    linkState.value = "parked";
    return;
  }
  later();
}

function later(): void {
  linkState.value = "waiting";
  retry = setTimeout(open, backoffMs(attempt, Math.random()));
  attempt += 1;
}

function reconnectNow(): void {
  // An attempt that began without a network fails still; the next one is soon.
  attempt = 0;
  if (linkState.value === "waiting") open();
}

/** A tab that nobody looks at costs the server nothing after a while; the cursors make its return exact. */
function onVisibility(): void {
  clearTimeout(parking);
  if (document.hidden) {
    parking = setTimeout(() => {
      isParked = true;
      if (socket === null) linkState.value = "parked";
      clearTimeout(retry);
      socket?.close();
    }, PARK_AFTER_MS);
  } else {
    isParked = false;
    if (socket === null && linkState.value !== "refused") open();
  }
}

function receive(text: string): void {
  const frame = decodeFrame(text);
  if (frame === undefined) return;
  if (frame.category === "response") {
    answer(frame);
    return;
  }
  for (const observer of observers) observer(frame);
  if (!resume.accept(frame)) return;
  for (const listener of listeners) listener(frame);
}

function answer(frame: EventFrame): void {
  const { requestId, error, errorCode, ...data } = frame.data;
  const asked = pending.get(requestId);
  if (asked === undefined) return;
  pending.delete(requestId);
  clearTimeout(asked.timer);
  if (error === undefined) asked.resolve(data as never);
  else asked.reject(new CommandError(errorCode ?? "internal_error", error));
}
