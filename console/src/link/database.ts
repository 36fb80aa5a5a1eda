/** What this browser keeps: messages that were not sent, and copies of conversations for a start without a connection. */

import { openDB, type IDBPDatabase } from "idb";

export const OUTBOX = "outbox";
export const COPIES = "copies";
const VERSION = 2;

let database: Promise<IDBPDatabase> | undefined;

export function openDatabase(): Promise<IDBPDatabase> {
  database ??= openDB("avm", VERSION, {
    upgrade(db) {
      if (!db.objectStoreNames.contains(OUTBOX)) db.createObjectStore(OUTBOX, { keyPath: "clientKey" });
      if (!db.objectStoreNames.contains(COPIES)) db.createObjectStore(COPIES, { keyPath: ["owner", "name"] });
    },
  });
  return database;
}
