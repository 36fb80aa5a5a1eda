/**
 * Messages that were sent and not confirmed. They are kept on this device with their files, so that neither a lost connection
 * nor a reload loses one; the server takes each once, by its key. A message that was refused stays until its owner decides.
 */

import { signal } from "@preact/signals";
import { OUTBOX, openDatabase } from "../link/database.ts";
import { ApiError } from "../link/http.ts";
import { ask, onOpen } from "../link/socket.ts";
import { type Attached, partOf, upload } from "../link/upload.ts";
import { ownerName } from "../link/who.ts";

export interface Refusal {
  code: string;
  text: string;
}

export interface Outgoing {
  clientKey: string;
  /** Whose message it is: a browser may be used by several people. */
  owner: string;
  sessionId: string;
  containerId?: string;
  text: string;
  files?: Attached[];
  at: number;
  refused?: Refusal;
}

/** A message that waits or was refused, or one that its owner has discarded. */
export interface Change {
  message: Outgoing;
  isGone?: boolean;
}

type Changed = (change: Change) => void;

/** Refusals that say nothing about the message: it is sent again. */
const PASSING = new Set(["channel_closed", "request_timeout", "shutting_down", "server_busy"]);

/** How much of the files of a message has been sent, from 0 to 1. */
export const progress = signal<Readonly<Record<string, number>>>({});

let changed: Changed = () => {};
let sending = false;
let again = false;
let tabs: BroadcastChannel | undefined;

/** Sends what is left whenever there is a connection; `whenChanged` hears of refused messages, and of changes in other tabs. */
export function watchOutbox(whenChanged: Changed): () => void {
  changed = whenChanged;
  tabs ??= new BroadcastChannel("avm.outbox");
  tabs.onmessage = ({ data }: MessageEvent<Change>) => data.message.owner === ownerName() && changed(data);
  return onOpen(() => void flush());
}

export async function waitingIn(sessionId: string): Promise<Outgoing[]> {
  return (await own()).filter((message) => message.sessionId === sessionId);
}

/** The messages of the present user, the oldest first. */
async function own(): Promise<Outgoing[]> {
  const all = (await (await openDatabase()).getAll(OUTBOX)) as Outgoing[];
  return all.filter((message) => message.owner === ownerName()).sort((a, b) => a.at - b.at);
}

export async function send(message: Outgoing): Promise<void> {
  await store(message);
  tabs?.postMessage({ message });
  void flush();
}

/** Sends a refused message once more. */
export async function retry(clientKey: string): Promise<void> {
  const message = await find(clientKey);
  if (message !== undefined) await send({ ...message, refused: undefined });
}

export async function discard(clientKey: string): Promise<void> {
  const message = await find(clientKey);
  await remove(clientKey);
  if (message !== undefined) tabs?.postMessage({ message, isGone: true });
}

const find = async (clientKey: string): Promise<Outgoing | undefined> => (await openDatabase()).get(OUTBOX, clientKey);
const remove = async (clientKey: string): Promise<void> => (await openDatabase()).delete(OUTBOX, clientKey);

async function store(message: Outgoing): Promise<void> {
  await (await openDatabase()).put(OUTBOX, message);
}

/** Sends in order, in one tab of this browser at a time. */
async function flush(): Promise<void> {
  if (sending) {
    again = true;
    return;
  }
  sending = true;
  try {
    await navigator.locks.request("avm.outbox", async () => {
      for (;;) {
        again = false;
        const next = (await own()).find((message) => message.refused === undefined);
        if (next === undefined ? !again : !(await sendOne(next))) return;
      }
    });
  } finally {
    sending = false;
  }
}

/** Whether the message is settled: taken, or refused for good. */
async function sendOne(message: Outgoing): Promise<boolean> {
  try {
    const files = await uploaded(message);
    const parts = [...(message.text === "" ? [] : [{ type: "text" as const, text: message.text }]), ...files.map(partOf)];
    const content = files.length === 0 ? message.text : parts;
    await ask("message_send", { sessionId: message.sessionId, content, clientMessageId: message.clientKey, onBusy: "queue" });
  } catch (error) {
    const code = error instanceof ApiError ? error.code : "internal_error";
    if (PASSING.has(code)) return false;
    const refused = { ...message, refused: { code, text: error instanceof Error ? error.message : String(error) } };
    await store(refused);
    changed({ message: refused });
    tabs?.postMessage({ message: refused });
    return true;
  }
  await remove(message.clientKey);
  return true;
}

/** Uploads the files that the server does not have. Each is remembered, so that a lost connection repeats at most one. */
async function uploaded(message: Outgoing): Promise<Attached[]> {
  const files = [...(message.files ?? [])];
  for (const [index, attached] of files.entries()) {
    if (attached.reference !== undefined) continue;
    const report = (part: number) => (progress.value = { ...progress.value, [message.clientKey]: (index + part) / files.length });
    const reference = await upload(attached, message.containerId ?? "default", report);
    const { file: _, ...rest } = attached;
    files[index] = { ...rest, reference };
    await store({ ...message, files });
  }
  return files;
}
