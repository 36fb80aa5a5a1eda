/**
 * The conversation in view: read once, then followed by its events. One frame of the screen is one change.
 *
 * What a model writes goes to `live` and touches nothing else; it joins the other messages with the next event of another kind.
 */

import type { Summary } from "../link/client.ts";
import { signal } from "@preact/signals";
import { keep, kept } from "../link/copies.ts";
import type { EventFrame, SessionRow } from "../link/frames.ts";
import { ApiError } from "../link/http.ts";
import { ask, leaveSession, onEvent, onOpen, openSession } from "../link/socket.ts";
import { type Attached, partOf } from "../link/upload.ts";
import { ownerName } from "../link/who.ts";
import {
  type Conversation,
  edited,
  EMPTY,
  fold,
  fromMessages,
  type Item,
  itemOf,
  type UserItem,
  withDraft,
  withOlder,
  without,
  withRefusal,
  withRewinds,
  withTurns,
  withWait,
  lastStored,
} from "./fold.ts";
import { type Change, discard as discardOutgoing, type Outgoing, retry as retryOutgoing, send as sendOutgoing, waitingIn, watchOutbox } from "./outbox.ts";

export type { Summary };

const PAGE = 100;
/** The greatest page that the server gives, for a message that lies far back. */
const FAR_PAGE = 200;
const FORKS_MAX = 200;
/** Events that are kept while the conversation is being read. Beyond them it is read again: all of them are in the store. */
const EARLY_MAX = 2_000;

/** What is kept of a conversation for a start without a connection. */
interface ConversationCopy {
  now: Conversation;
  about?: SessionRow;
}

/** What was written since the last change of the messages. */
export interface LiveText {
  turnId: string | undefined;
  text: string;
  thinking: string;
}

const NOTHING: LiveText = { turnId: undefined, text: "", thinking: "" };

export class OpenConversation {
  readonly now = signal<Conversation>(EMPTY);
  readonly live = signal<LiveText>(NOTHING);
  readonly problem = signal<{ code: string; text: string } | undefined>(undefined);
  /** Nothing can be shown yet. */
  readonly loading = signal(true);
  /** The server has told what is in the conversation, and it is drawn. */
  readonly isRead = signal(false);
  readonly older = signal<string | undefined>(undefined);
  readonly about = signal<SessionRow | undefined>(undefined);
  readonly summaries = signal<readonly Summary[]>([]);
  /** Sessions that were forked from this one. */
  readonly forks = signal<readonly SessionRow[]>([]);
  /** The question that is being changed. */
  readonly editing = signal<string | undefined>(undefined);
  readonly sessionId: string;
  #next: Conversation = EMPTY;
  #pieces: LiveText = NOTHING;
  #frame: number | undefined;
  #endings: (() => void)[] = [];
  #read = false;
  #early: EventFrame[] = [];
  /** Whether more events came than were kept. */
  #isOverrun = false;
  /** The keys of messages that the server has taken. */
  #taken = new Set<string>();

  constructor(sessionId: string) {
    this.sessionId = sessionId;
  }

  /** The conversation as it is, before the next frame of the screen shows it. */
  get latest(): Conversation {
    return this.#next;
  }

  start(): void {
    this.#endings = [
      onEvent((frame) => this.#heard(frame)),
      watchOutbox((change) => this.#changedOutbox(change)),
      onOpen(() => {
        if (!this.#read) void this.#load();
      }),
    ];
    void this.#showCopy();
  }

  stop(): void {
    for (const end of this.#endings) end();
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
    leaveSession(this.sessionId);
  }

  /** Shows what this browser has kept, until the server answers. */
  async #showCopy(): Promise<void> {
    const copy = await kept<ConversationCopy>(ownerName(), this.sessionId);
    const now = await this.#withWaiting(copy?.now ?? EMPTY);
    if (this.#read || now === EMPTY) return;
    this.about.value = copy?.about;
    this.#set(now);
    this.loading.value = false;
  }

  async #withWaiting(now: Conversation): Promise<Conversation> {
    return (await waitingIn(this.sessionId)).reduce(withOutgoing, now);
  }

  async #load(): Promise<void> {
    this.#read = this.#isOverrun = false;
    this.#early = [];
    try {
      const page = await openSession(this.sessionId, PAGE, true);
      const [{ session }, { rewinds }, { waits }] = await Promise.all([
        ask("session_get", { sessionId: this.sessionId }),
        ask("session_rewinds", { sessionId: this.sessionId }),
        ask("tool_waits", { sessionId: this.sessionId, state: "open" }),
      ]);
      if (this.#isOverrun) return await this.#load();
      // The ends of turns never change. The outbox is read last, so that a message that was sent meanwhile stays in view.
      const stored = withTurns({ ...fromMessages(page.messages.toReversed()), ends: this.#next.ends }, page.turns ?? []);
      const read = await this.#withWaiting(stored);
      this.older.value = page.nextCursor;
      this.about.value = session ?? undefined;
      this.#read = true;
      this.#pieces = NOTHING;
      const open = waits.map((wait) => (wait.sessionId === this.sessionId ? { ...wait, sessionId: undefined } : wait));
      this.#set(this.#early.reduce(fold, open.reduce(withWait, withRewinds(read, rewinds))));
      this.problem.value = undefined;
      await Promise.all([this.loadSummaries(), this.loadForks()]);
      this.#keep();
    } catch (error) {
      if (error instanceof ApiError && error.code === "channel_closed") return;
      this.problem.value = { code: error instanceof ApiError ? error.code : "", text: error instanceof Error ? error.message : String(error) };
    } finally {
      this.loading.value = false;
    }
  }

  #keep(): void {
    const { items, rewinds, begun, ends } = this.#next;
    const settled = items.filter((item) => item.kind !== "user" || item.clientKey === undefined).slice(-PAGE);
    const copy: ConversationCopy = { now: { items: settled, rewinds, running: [], begun, parked: false, ends }, about: this.about.value };
    void keep(ownerName(), this.sessionId, copy);
  }

  async loadSummaries(): Promise<void> {
    this.summaries.value = (await ask("session_summaries", { sessionId: this.sessionId })).summaries;
  }

  async loadForks(): Promise<void> {
    const data = { forkedFrom: this.sessionId, archived: "all" as const, limit: FORKS_MAX };
    this.forks.value = (await ask("session_browse", data)).sessions;
  }

  /** Summarizes earlier messages, so that more of them count in the next answer. */
  async summarize(): Promise<void> {
    await ask("session_compact", { sessionId: this.sessionId });
    await this.loadSummaries();
  }

  /** Lets a quarantined session take messages again. */
  async release(): Promise<void> {
    const { session } = await ask("session_release", { sessionId: this.sessionId });
    this.about.value = session ?? undefined;
  }

  async loadOlder(limit = PAGE): Promise<void> {
    const cursor = this.older.value;
    if (cursor === undefined) return;
    const page = await ask("session_history", { sessionId: this.sessionId, order: "newest", limit, cursor, turns: true });
    this.older.value = page.nextCursor;
    this.#set(withTurns(withOlder(this.#next, page.messages.toReversed()), page.turns ?? []));
  }

  /** The item of a message, which may lie before those that were read; undefined if it is not in this conversation. */
  async reach(messageId: string): Promise<Item | undefined> {
    while (itemOf(this.#next, messageId) === undefined && this.older.value !== undefined) await this.loadOlder(FAR_PAGE);
    return itemOf(this.#next, messageId);
  }

  /** Replaces a question: it and all that follows are taken back, and it is asked anew. */
  async edit(item: UserItem, text: string): Promise<void> {
    await ask("message_edit", { ...this.#changed(), messageId: item.id, content: edited(item, text), clientMessageId: crypto.randomUUID() });
    this.editing.value = undefined;
  }

  answerAgain = (messageId: string | undefined): Promise<unknown> =>
    ask("message_regenerate", { ...this.#changed(), messageId, clientMessageId: crypto.randomUUID() });
  rewind = (before: string): Promise<unknown> => ask("session_rewind", { ...this.#changed(), before });

  /** The session of a change. A turn that runs is stopped. */
  #changed = () => ({ sessionId: this.sessionId, onBusy: "interrupt" as const });

  /** A new conversation that begins with this one, up to a message; with another agent if an image is named. Returns its id. */
  async fork(messageId?: string, imageId?: string): Promise<string> {
    const { session } = await ask("session_fork", { sessionId: this.sessionId, messageId, imageId });
    return session!.sessionId;
  }

  async takenBack(rewindId: string): Promise<Item[]> {
    const page = await ask("session_history", { sessionId: this.sessionId, rewind: rewindId, limit: FAR_PAGE });
    return fromMessages(page.messages).items;
  }

  /** Marks what is shown as read, and no message that comes while the mark is on its way. */
  markRead(): void {
    const seen = lastStored(this.now.value);
    if (seen === undefined || !this.#read || document.hidden) return;
    ask("session_mark_read", { sessionId: this.sessionId, messageId: seen.id }).catch(() => undefined);
  }

  /** Sends a message. It is shown when this browser has kept it, so that a message in view is never lost. */
  async send(text: string, files: Attached[] = [], containerId = this.about.value?.containerId): Promise<void> {
    const message: Outgoing = { clientKey: crypto.randomUUID(), owner: ownerName(), sessionId: this.sessionId, containerId, text, at: Date.now() };
    if (files.length > 0) message.files = files;
    await sendOutgoing(message);
    if (!this.#taken.has(message.clientKey)) this.#set(withOutgoing(this.#next, message));
  }

  async retry(clientKey: string): Promise<void> {
    this.#set(withRefusal(this.#next, clientKey, undefined));
    await retryOutgoing(clientKey);
  }

  async discard(clientKey: string): Promise<void> {
    await discardOutgoing(clientKey);
    this.#set(without(this.#next, clientKey));
  }

  stopTurn(): Promise<unknown> {
    return ask("agent_interrupt", { sessionId: this.sessionId });
  }

  #changedOutbox({ message, isGone }: Change): void {
    if (message.sessionId !== this.sessionId || this.#taken.has(message.clientKey)) return;
    this.#set(isGone ? without(this.#next, message.clientKey) : withOutgoing(this.#next, message));
  }

  #heard(frame: EventFrame): void {
    if (frame.type === "resync_required" && frame.data.sessionId === this.sessionId) {
      void this.#load();
      return;
    }
    if (frame.type === "session_forked" && frame.data.originalSessionId === this.sessionId) void this.loadForks().catch(() => undefined);
    if (frame.context?.sessionId !== this.sessionId) return;
    if (frame.type === "turn_request" && frame.data.clientKey !== undefined) this.#taken.add(frame.data.clientKey);
    if (!this.#read && this.#early.length < EARLY_MAX) this.#early.push(frame);
    else if (!this.#read) this.#isOverrun = true;
    else if (frame.type === "text_delta" || frame.type === "thinking_delta") this.#grow(frame);
    else this.#apply(frame);
  }

  #grow(frame: EventFrame): void {
    const turnId = frame.context?.turnId;
    if (this.#pieces.turnId !== turnId) this.#join();
    const { text, thinking } = this.#pieces;
    this.#pieces =
      frame.type === "text_delta" ? { turnId, text: text + frame.data.text, thinking } : { turnId, text, thinking: thinking + frame.data.text };
    this.#draw();
  }

  #apply(frame: EventFrame): void {
    const before = this.#next;
    this.#join();
    this.#next = fold(this.#next, frame);
    if (this.#next !== before) this.#draw();
    if (frame.type === "turn_response") this.#keep();
    if (frame.type === "session_compacted") void this.loadSummaries().catch(() => undefined);
  }

  /** What was written becomes a part of its message. */
  #join(): void {
    const { turnId, text, thinking } = this.#pieces;
    this.#pieces = NOTHING;
    const context = { sessionId: this.sessionId, turnId };
    const piece = (type: string, said: string): EventFrame => ({ type, timestamp: 0, data: { text: said }, context });
    if (thinking !== "") this.#next = fold(this.#next, piece("thinking_delta", thinking));
    if (text !== "") this.#next = fold(this.#next, piece("text_delta", text));
  }

  #set(next: Conversation): void {
    this.#next = next;
    this.#draw();
  }

  #draw(): void {
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.now.value = this.#next;
      this.live.value = this.#pieces;
      if (this.#read) this.isRead.value = true;
    });
  }
}

function withOutgoing(now: Conversation, { clientKey, text, files, at, refused }: Outgoing): Conversation {
  return withRefusal(withDraft(now, clientKey, text, (files ?? []).map(partOf), at), clientKey, refused);
}
