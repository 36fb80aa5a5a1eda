/** Session — one conversation with an image, and the agent that answers in it. */

import { AgentVMError } from "./errors.ts";
import type { AgentEvent } from "./frames.ts";
import type { Runtime } from "./runtime.ts";
import type { Commands, Events } from "./types.ts";

type SendRequest = Commands["message_send"]["request"];
export type Content = SendRequest["content"];
export type Message = Commands["session_history"]["reply"]["messages"][number];
export type SessionState = NonNullable<Commands["session_create"]["reply"]["session"]>;
/** The answer to a call that waits: approve, edit or deny it, or give its result. */
export type Answer = Omit<Commands["tool_answer"]["request"], "waitId" | "fingerprint">;

/** Messages asked for at a time. */
const PAGE_MAX = 200;

export class Session {
  readonly #runtime: Runtime;
  /** The state when it was last read. */
  record: SessionState;

  constructor(runtime: Runtime, record: SessionState) {
    this.#runtime = runtime;
    this.record = record;
  }

  get sessionId(): string {
    return this.record.sessionId;
  }

  /** Starts the agent of the session from its image, and follows the session. */
  async resume(): Promise<Agent> {
    const { agentId } = await this.#runtime.ask("session_resume", { sessionId: this.sessionId });
    await this.follow();
    return new Agent(this.#runtime, this, agentId);
  }

  /** From now on its events come to the handlers of the runtime, each once, also after a lost connection. */
  async follow(): Promise<void> {
    const { channel } = this.#runtime;
    if (channel.state === "closed") await channel.connect();
    if (!channel.isFollowing(this.sessionId)) await channel.openSession(this.sessionId, 1);
  }

  /** All messages, the oldest first. */
  async messages(): Promise<Message[]> {
    const messages: Message[] = [];
    let cursor: string | undefined;
    do {
      const page: Commands["session_history"]["reply"] = await this.#runtime.ask("session_history", {
        sessionId: this.sessionId,
        order: "oldest",
        cursor,
        limit: PAGE_MAX,
      });
      messages.push(...page.messages);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return messages;
  }

  async setTitle(title: string | null): Promise<void> {
    const { session } = await this.#runtime.ask("session_set_title", { sessionId: this.sessionId, title });
    if (session !== null) this.record = session;
  }

  /** Answers a call that waits, as `tool_waiting` tells of it. The same answer again is no second one. */
  async answer({ waitId, fingerprint }: Pick<Events["tool_waiting"], "waitId" | "fingerprint">, answer: Answer): Promise<void> {
    await this.#runtime.askOnce("tool_answer", { waitId, fingerprint, ...answer });
  }
}

/** A turn that has begun. */
export interface SentTurn {
  turnId: string;
  sessionId: string;
}

export interface SendOptions extends Pick<SendRequest, "onBusy" | "onParked" | "options" | "output"> {
  /** The sender's own name for the message, under which it is one message however often it is sent. */
  clientMessageId?: string;
}

export class Agent {
  readonly #runtime: Runtime;
  readonly session: Session;
  readonly agentId: string;

  constructor(runtime: Runtime, session: Session, agentId: string) {
    this.#runtime = runtime;
    this.session = session;
    this.agentId = agentId;
  }

  /** Sends a message, once, also over a connection that is lost meanwhile. Resolves when it is stored; the answer comes as events. */
  async receive(content: Content, options: SendOptions = {}): Promise<SentTurn> {
    const sent = await this.#runtime.askOnce("message_send", {
      imageId: this.session.record.imageId,
      sessionId: this.session.sessionId,
      content,
      clientMessageId: crypto.randomUUID(),
      ...options,
    });
    if (sent.turnId === undefined) throw new AgentVMError("internal_error", "The reply names no turn");
    return { turnId: sent.turnId, sessionId: this.session.sessionId };
  }

  /** Sends a message and yields every event of its turn; the last one is `turn_response`. */
  async *stream(content: Content, options?: SendOptions): AsyncGenerator<AgentEvent, void, undefined> {
    await this.session.follow();
    let turnId: string | undefined;
    const isOfTurn = (event: AgentEvent) => event.context?.turnId === turnId;
    const events = this.#runtime.events(this.session.sessionId, (event) => event.type === "turn_response" && isOfTurn(event));
    try {
      turnId = (await this.receive(content, options)).turnId;
      for await (const event of events.read()) if (isOfTurn(event)) yield event;
    } finally {
      events.close();
    }
  }

  /** Sends a message and resolves with the text of the answer. Rejects when the turn fails. */
  async say(content: Content, options?: SendOptions): Promise<string> {
    let text = "";
    let failure: AgentVMError | undefined;
    for await (const { type, data } of this.stream(content, options)) {
      if (type === "message_start") text = data.text ?? "";
      else if (type === "text_delta") text += data.text;
      else if (type === "error_message") failure = new AgentVMError(data.errorCode ?? "internal_error", data.content);
    }
    if (failure !== undefined) throw failure;
    return text;
  }

  async interrupt(): Promise<void> {
    await this.#runtime.ask("agent_interrupt", { agentId: this.agentId });
  }

  async stop(): Promise<void> {
    await this.#runtime.ask("agent_destroy", { agentId: this.agentId });
  }
}
