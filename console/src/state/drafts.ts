/** Text that was begun and not sent, on all devices of the user. The own draft is also kept by the tab, against a lost connection. */

import type { Draft } from "../link/client.ts";
import { signal } from "@preact/signals";
import type { EventFrame } from "../link/frames.ts";
import { ask, onNotice, onOpen } from "../link/socket.ts";

export type { Draft };

const STORED = "avm.device";
const PAUSE_MS = 800;
const LISTED_MAX = 200;

/** Sessions that have a draft. */
export const drafted = signal<ReadonlySet<string>>(new Set());

const timers = new Map<string, ReturnType<typeof setTimeout>>();

/** The name of this browser among the devices of its user: its kind, and a number. */
export function device(): string {
  let name = localStorage.getItem(STORED);
  if (name === null) {
    name = `${matchMedia("(pointer: coarse)").matches ? "phone" : "desk"}-${crypto.randomUUID().slice(0, 8)}`;
    localStorage.setItem(STORED, name);
  }
  return name;
}

/** Keeps the list of drafts up to date until the returned function is called. */
export function watchDrafts(): () => void {
  const endings = [
    onOpen(() => void list()),
    onNotice((frame: EventFrame) => {
      if (frame.type === "session_draft_updated") void list();
    }),
  ];
  return () => endings.forEach((end) => end());
}

async function list(): Promise<void> {
  try {
    const { drafts } = await ask("session_draft_list", { limit: LISTED_MAX });
    const next = new Set(drafts.map((draft) => draft.sessionId));
    if (next.size !== drafted.value.size || [...next].some((sessionId) => !drafted.value.has(sessionId))) drafted.value = next;
  } catch {
    // Read again when the connection is back.
  }
}

/** Stores the draft of this device after a pause in typing; an empty one removes it at once. */
export function saveDraft(sessionId: string, text: string): void {
  clearTimeout(timers.get(sessionId));
  const save = () => void ask("session_draft", { sessionId, text, device: device() }).catch(() => undefined);
  if (text === "") save();
  else timers.set(sessionId, setTimeout(save, PAUSE_MS));
}

export async function draftsOf(sessionId: string): Promise<Draft[]> {
  return (await ask("session_drafts", { sessionId })).drafts;
}

/** Removes the draft of another device, which was taken over. */
export const dropDraft = (draft: Draft) => ask("session_draft", { sessionId: draft.sessionId, text: "", device: draft.device });
