/** Copies of what was read last, by owner: they are shown until the server answers, and when it does not. */

import { COPIES, openDatabase } from "./database.ts";

const KEPT_MAX = 50;

interface Copy {
  owner: string;
  name: string;
  at: number;
  value: unknown;
}

export async function keep(owner: string, name: string, value: unknown): Promise<void> {
  try {
    const db = await openDatabase();
    await db.put(COPIES, { owner, name, at: Date.now(), value } satisfies Copy);
    const all = (await db.getAll(COPIES)) as Copy[];
    const old = all.sort((a, b) => b.at - a.at).slice(KEPT_MAX);
    await Promise.all(old.map((copy) => db.delete(COPIES, [copy.owner, copy.name])));
  } catch {
    // A full or forbidden store: the console works without copies.
  }
}

export async function kept<T>(owner: string, name: string): Promise<T | undefined> {
  try {
    return ((await (await openDatabase()).get(COPIES, [owner, name])) as Copy | undefined)?.value as T | undefined;
  } catch {
    return undefined;
  }
}

/** Forgets all copies of an owner, who has signed out here. */
export async function forget(owner: string): Promise<void> {
  try {
    const db = await openDatabase();
    for (const key of await db.getAllKeys(COPIES)) if ((key as [string, string])[0] === owner) await db.delete(COPIES, key);
  } catch {
    // Nothing was kept.
  }
}
