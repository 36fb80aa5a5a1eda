/** The conversation in view: read once, then followed by its events. One frame of the screen is one change. */

import { signal } from "@preact/signals";
import type { EventFrame, StoredMessage } from "../link/frames.ts";
import { request } from "../link/http.ts";
import { ask, CommandError, follow, onEvent, onOpen, toldOf } from "../link/socket.ts";
import { type Conversation, EMPTY, fold, fromMessages, type OpenWait, type TurnRow, withDraft, withOlder, without, withRefusal, withTurns, withWait } from "./fold.ts";
import { discard as discardOutgoing, send as sendOutgoing, waitingIn, watchOutbox } from "./outbox.ts";

const PAGE = 100;
const TURNS = 200;

interface History {
  messages: StoredMessage[];
  nextCursor?: string;
  logCursor?: string;
}

export class OpenConversation {
  readonly now = signal<Conversation>(EMPTY);
  readonly problem = signal<string | undefined>(undefined);
  readonly loading = signal(true);
  readonly older = signal<string | undefined>(undefined);
  readonly sessionId: string;
  #next: Conversation = EMPTY;
  #frame: number | undefined;
  #endings: (() => void)[] = [];
  #read = false;
  #early: EventFrame[] = [];

  constructor(sessionId: string) {
    this.sessionId = sessionId;
  }

  start(): void {
    this.#endings = [
      onEvent((frame) => this.#heard(frame)),
      watchOutbox((message, refusal) => {
        if (message.sessionId === this.sessionId && refusal !== undefined)
          this.#set(withRefusal(this.#next, message.clientKey, refusal));
      }),
      onOpen(() => {
        if (!this.#read) void this.#load();
      }),
    ];
  }

  stop(): void {
    for (const end of this.#endings) end();
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
  }

  async #load(): Promise<void> {
    // What is told while the history is being read may be in it or not.
    this.#read = false;
    this.#early = [...toldOf(this.sessionId)];
    try {
      const page = await ask<History>("session_history", { sessionId: this.sessionId, order: "newest", limit: PAGE });
      this.older.value = page.nextCursor;
      let read = fromMessages(page.messages.toReversed());
      for (const { clientKey, text, at } of await waitingIn(this.sessionId)) read = withDraft(read, clientKey, text, [], at);
      const { waits } = await ask<{ waits: OpenWait[] }>("tool_waits", { sessionId: this.sessionId });
      follow(this.sessionId, Number(page.logCursor ?? 0));
      this.#read = true;
      this.#set(this.#early.reduce(fold, waits.reduce(withWait, read)));
      this.problem.value = undefined;
      await this.#loadTurns();
    } catch (error) {
      if (error instanceof CommandError && error.code === "offline") return;
      this.problem.value = error instanceof Error ? error.message : String(error);
    } finally {
      this.loading.value = false;
    }
  }

  /** The prices of earlier turns. The conversation can be read without them. */
  async #loadTurns(): Promise<void> {
    const query = new URLSearchParams({ session: this.sessionId, limit: String(TURNS) });
    const { items } = await request<{ items: TurnRow[] }>("GET", `/v1/turns?${query}`);
    this.#set(withTurns(this.#next, items));
  }

  async loadOlder(): Promise<void> {
    const cursor = this.older.value;
    if (cursor === undefined) return;
    const page = await ask<History>("session_history", { sessionId: this.sessionId, order: "newest", limit: PAGE, cursor });
    this.older.value = page.nextCursor;
    this.#set(withOlder(this.#next, page.messages.toReversed()));
  }

  async send(text: string): Promise<void> {
    const message = { clientKey: crypto.randomUUID(), sessionId: this.sessionId, text, at: Date.now() };
    this.#set(withDraft(this.#next, message.clientKey, text, [], message.at));
    await sendOutgoing(message);
  }

  async discard(clientKey: string): Promise<void> {
    await discardOutgoing(clientKey);
    this.#set(without(this.#next, clientKey));
  }

  stopTurn(): Promise<unknown> {
    return ask("agent_interrupt", { sessionId: this.sessionId });
  }

  #heard(frame: EventFrame): void {
    if (frame.type === "resync_required" && frame.data.sessionId === this.sessionId) {
      void this.#load();
      return;
    }
    if (frame.context?.sessionId !== this.sessionId) return;
    if (!this.#read) {
      this.#early.push(frame);
      return;
    }
    const next = fold(this.#next, frame);
    if (next !== this.#next) this.#set(next);
  }

  #set(next: Conversation): void {
    this.#next = next;
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.now.value = this.#next;
    });
  }
}
