/** The conversation in view: read once, then followed by its events. One frame of the screen is one change. */

import { signal } from "@preact/signals";
import type { EventFrame, SessionRow, StoredMessage } from "../link/frames.ts";
import { request } from "../link/http.ts";
import { ask, CommandError, follow, onEvent, onOpen, toldOf } from "../link/socket.ts";
import { ownerName } from "../link/who.ts";
import {
  type Conversation, edited, EMPTY, fold, fromMessages, type Item, itemOf, type OpenWait, type Rewind, type TurnRow, type UserItem, withDraft, withOlder,
  without, withRefusal, withRewinds, withTurns, withWait,
} from "./fold.ts";
import { discard as discardOutgoing, send as sendOutgoing, waitingIn, watchOutbox } from "./outbox.ts";

const PAGE = 100;
/** The greatest page that the server gives, for a message that lies far back. */
const FAR_PAGE = 200;
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
  readonly about = signal<SessionRow | undefined>(undefined);
  /** The question that is being changed. */
  readonly editing = signal<string | undefined>(undefined);
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
      const { session } = await ask<{ session: SessionRow | null }>("session_get", { sessionId: this.sessionId });
      this.about.value = session ?? undefined;
      const { rewinds } = await ask<{ rewinds: Rewind[] }>("session_rewinds", { sessionId: this.sessionId });
      read = withRewinds(read, rewinds);
      const { waits } = await ask<{ waits: OpenWait[] }>("tool_waits", { sessionId: this.sessionId });
      follow(this.sessionId, Number(page.logCursor ?? 0));
      this.#read = true;
      this.#set(this.#early.reduce(fold, waits.reduce(withWait, read)));
      this.problem.value = undefined;
      this.#markRead();
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

  async loadOlder(limit = PAGE): Promise<void> {
    const cursor = this.older.value;
    if (cursor === undefined) return;
    const page = await ask<History>("session_history", { sessionId: this.sessionId, order: "newest", limit, cursor });
    this.older.value = page.nextCursor;
    this.#set(withOlder(this.#next, page.messages.toReversed()));
  }

  /** The item of a message, which may lie before those that were read; undefined if it is not in this conversation. */
  async reach(messageId: string): Promise<Item | undefined> {
    while (itemOf(this.#next, messageId) === undefined && this.older.value !== undefined) await this.loadOlder(FAR_PAGE);
    return itemOf(this.#next, messageId);
  }

  /** Replaces a question: it and all that follows are taken back, and it is asked anew. */
  async edit(item: UserItem, text: string): Promise<void> {
    await this.#change("message_edit", { messageId: item.id, content: edited(item, text), clientMessageId: crypto.randomUUID() });
    this.editing.value = undefined;
  }

  answerAgain = (messageId: string) => this.#change("message_regenerate", { messageId, clientMessageId: crypto.randomUUID() });
  rewind = (before: string) => this.#change("session_rewind", { before });

  /** A new conversation that begins with this one, up to a message. Returns its id. */
  async fork(messageId: string): Promise<string> {
    const { session } = await ask<{ session: SessionRow }>("session_fork", { sessionId: this.sessionId, messageId });
    return session.sessionId;
  }

  async takenBack(rewindId: string): Promise<Item[]> {
    const page = await ask<History>("session_history", { sessionId: this.sessionId, rewind: rewindId, limit: FAR_PAGE });
    return fromMessages(page.messages).items;
  }

  #change(command: string, data: Record<string, unknown>): Promise<unknown> {
    return ask(command, { sessionId: this.sessionId, onBusy: "interrupt", ...data });
  }

  #markRead(): void {
    if (!document.hidden) ask("session_mark_read", { sessionId: this.sessionId }).catch(() => undefined);
  }

  async send(text: string): Promise<void> {
    const message = { clientKey: crypto.randomUUID(), owner: ownerName(), sessionId: this.sessionId, text, at: Date.now() };
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
    if (frame.type === "turn_response") this.#markRead();
  }

  #set(next: Conversation): void {
    this.#next = next;
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.now.value = this.#next;
    });
  }
}
