/**
 * Messages that were sent and not confirmed. They are kept on this device, so that neither a lost connection nor a reload
 * loses one; the server takes each once, by its key.
 */

import { openDB, type IDBPDatabase } from "idb";
import { ask, CommandError, onOpen } from "../link/socket.ts";
import { ownerName } from "../link/who.ts";

export interface Outgoing {
  clientKey: string;
  /** Whose message it is: a browser may be used by several people. */
  owner: string;
  sessionId: string;
  text: string;
  at: number;
}

type Settled = (message: Outgoing, refusal: string | undefined) => void;

const STORE = "outbox";
/** Refusals that say nothing about the message: it is sent again. */
const PASSING = new Set(["offline", "request_timeout", "shutting_down", "server_busy"]);

let database: Promise<IDBPDatabase> | undefined;
let settled: Settled = () => {};
let sending = false;

function open(): Promise<IDBPDatabase> {
  database ??= openDB("avm", 1, { upgrade: (db) => void db.createObjectStore(STORE, { keyPath: "clientKey" }) });
  return database;
}

/** Sends what is left whenever there is a connection; `whenSettled` hears of each message that was taken or refused. */
export function watchOutbox(whenSettled: Settled): () => void {
  settled = whenSettled;
  return onOpen(() => void flush());
}

export async function waitingIn(sessionId: string): Promise<Outgoing[]> {
  return (await own(await open())).filter((message) => message.sessionId === sessionId);
}

/** The messages of the present user, the oldest first. */
async function own(db: IDBPDatabase): Promise<Outgoing[]> {
  const all = (await db.getAll(STORE)) as Outgoing[];
  return all.filter((message) => message.owner === ownerName()).sort((a, b) => a.at - b.at);
}

export async function send(message: Outgoing): Promise<void> {
  await (await open()).put(STORE, message);
  await flush();
}

export async function discard(clientKey: string): Promise<void> {
  await (await open()).delete(STORE, clientKey);
}

/** Sends in order, in one tab of this browser at a time. */
async function flush(): Promise<void> {
  if (sending) return;
  sending = true;
  try {
    await navigator.locks.request("avm.outbox", async () => {
      const db = await open();
      for (;;) {
        const [next] = await own(db);
        if (next === undefined || !(await sendOne(next))) return;
        await db.delete(STORE, next.clientKey);
      }
    });
  } finally {
    sending = false;
  }
}

/** Whether the message is settled: taken, or refused for good. */
async function sendOne(message: Outgoing): Promise<boolean> {
  try {
    await ask("message_send", {
      sessionId: message.sessionId,
      content: message.text,
      clientMessageId: message.clientKey,
      onBusy: "queue",
    });
  } catch (error) {
    const code = error instanceof CommandError ? error.code : "internal_error";
    if (PASSING.has(code)) return false;
    settled(message, error instanceof Error ? error.message : String(error));
    return true;
  }
  settled(message, undefined);
  return true;
}
