/**
 * Turn — one unit of work as a state machine: outputs of a model in, events out. Knows no socket and no store.
 *
 * For one output the order is fixed: stream event, message, state, turn. `turn_response` is the one terminal event and always
 * the last; nothing follows it. Ids of messages derive from the id of the turn, so a second run of a turn gives the same ids.
 */

import type { AssistantMessage, ToolCallMessage, ToolResultMessage, UserMessage, ErrorMessage, Usage } from "../../clients/typescript/src/types.ts";
import { type Told, tell } from "./events.ts";

export type Message = UserMessage | AssistantMessage | ToolCallMessage | ToolResultMessage | ErrorMessage;
export type StopReason = "end_turn" | "max_tokens" | "stop_sequence" | "refusal" | "tool_use" | "pause_turn";

export type Output =
  /** With the tokens of the input, if the provider tells them at once. */
  | { kind: "message_started"; model: string; usage?: Usage }
  | { kind: "text_started" | "text_stopped" | "thinking_started" | "call_stopped" }
  | { kind: "thinking_stopped"; signature?: string }
  | { kind: "text" | "thinking" | "call_input"; text: string }
  | { kind: "call_started"; callId: string; name: string; byProvider?: boolean }
  | { kind: "provider_result"; callId: string; value: unknown; isError: boolean }
  | { kind: "usage"; usage: Usage }
  | { kind: "stopped"; reason: StopReason };

export interface Call {
  id: string;
  name: string;
  input: Record<string, unknown>;
  byProvider: boolean;
  /** Why the input is none; the call is not made then. */
  problem?: string;
}

export interface Outcome {
  result: unknown;
  isError: boolean;
  denied?: boolean;
}

/** A call of the model that has used tokens. */
export interface ModelCall {
  /** Of the message that it answered with. */
  messageId: string;
  at: number;
  usage: Usage;
}

interface OpenCall {
  id: string;
  name: string;
  json: string;
  byProvider: boolean;
}

const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0 };
const ESTIMATED_TOKEN_BYTES = 3;
/** What is kept of a result when a turn is too large to be stored. */
const KEPT_MAX_CHARACTERS = 1_000;
const CUT = "… [cut off: the turn was too large to be stored]";
const LOST = "No result: the answer ended before the provider had one.";

export class Turn {
  readonly turnId: string;
  readonly userMessageId: string;
  readonly acceptedAt: number;
  /** Messages of the turn so far, besides the user's. */
  messages: Message[] = [];
  /** Calls of the last message of the model that have no result yet. */
  pending: Call[] = [];
  /** Calls at the provider that have no result yet. */
  atProvider: Call[] = [];
  usage: Usage = NO_USAGE;
  /** Calls of the model that are not in the ledger yet. */
  readonly calls: ModelCall[] = [];
  ended = false;
  paused = false;
  produced = 0;
  model: string | undefined;
  #messageId: string | undefined;
  #startedAt = 0;
  #text = "";
  #thinking: { type: "thinking"; reasoning: string; signature?: string }[] = [];
  #openThinking: string | undefined;
  #openCall: OpenCall | undefined;
  #responding = false;
  #callUsage: Usage = NO_USAGE;
  #begunUsage: Usage = NO_USAGE;
  /** Whether the provider has said what the call used. */
  #isCounted = false;
  #callIds = new Set<string>();

  constructor(turnId: string, userMessageId: string, acceptedAt: number) {
    this.turnId = turnId;
    this.userMessageId = userMessageId;
    this.acceptedAt = acceptedAt;
  }

  /** Takes up a turn from its messages; calls without a result are still to be made. */
  restore(messages: readonly Message[], produced: number, usage: Usage = NO_USAGE): void {
    this.messages = [...messages];
    this.produced = produced;
    this.usage = usage;
    const answered = new Set(messages.flatMap((message) => (message.subtype === "tool-result" ? [message.toolCallId] : [])));
    for (const message of messages) {
      if (message.subtype !== "tool-call") continue;
      this.#callIds.add(message.toolCall.id);
      const { id, name, input } = message.toolCall;
      if (!message.toolCall.byProvider && !answered.has(id)) this.pending.push({ id, name, input, byProvider: false });
    }
  }

  step(output: Output, at: number): Told[] {
    if (this.ended) return [];
    switch (output.kind) {
      case "message_started":
        return this.#start(output.model, output.usage, at);
      case "text":
        return this.#grow(output.text, at);
      case "text_started":
        this.#responding = false;
        return [tell("text_content_block_start", {}, at)];
      case "text_stopped":
        return [tell("text_content_block_stop", {}, at)];
      case "thinking_started":
        return [tell("conversation_thinking", {}, at)];
      case "thinking":
        this.#openThinking = (this.#openThinking ?? "") + output.text;
        return [tell("thinking_delta", { text: output.text }, at)];
      case "thinking_stopped":
        this.#thinking.push({ type: "thinking", reasoning: this.#openThinking ?? "", ...(output.signature ? { signature: output.signature } : {}) });
        this.#openThinking = undefined;
        return [];
      case "call_started":
        return this.#startCall(output.callId, output.name, output.byProvider ?? false, at);
      case "call_input":
        if (this.#openCall !== undefined) this.#openCall.json += output.text;
        return [tell("input_json_delta", { partialJson: output.text }, at)];
      case "call_stopped":
        return this.#stopCall(at);
      case "provider_result":
        return this.#finishAtProvider(output.callId, { result: output.value, isError: output.isError }, at);
      case "usage":
        this.#callUsage = output.usage;
        this.#isCounted = true;
        return [tell("message_delta", { usage: output.usage }, at)];
      case "stopped":
        return this.#stop(output.reason, at);
    }
  }

  /** A call of this turn has its outcome. */
  finish(call: Call, outcome: Outcome, at: number): Told[] {
    this.pending = this.pending.filter((other) => other.id !== call.id);
    const text = typeof outcome.result === "string" ? outcome.result : JSON.stringify(outcome.result ?? null);
    const output = outcome.denied
      ? { type: "execution-denied" as const, reason: text, value: text }
      : { type: outcome.isError ? ("error-text" as const) : ("text" as const), value: text };
    const message = {
      id: this.#takeId(),
      role: "tool",
      subtype: "tool-result",
      toolCallId: call.id,
      toolResult: { type: "tool-result", id: call.id, name: call.name, output },
      timestamp: at,
      turnId: this.turnId,
    } as ToolResultMessage;
    this.messages.push(message);
    const told = outcome.isError || outcome.denied ? text : outcome.result;
    return [
      tell("tool_result", { toolCallId: call.id, result: told ?? null, isError: outcome.isError }, at),
      tell("tool_result_message", message, at),
      outcome.isError
        ? tell("tool_failed", { toolId: call.id, toolName: call.name, error: text }, at)
        : tell("tool_completed", { toolId: call.id, toolName: call.name, result: told ?? null }, at),
    ];
  }

  /** Cuts long results of tools: together with them the turn is too large to be stored. */
  shorten(): void {
    for (const message of this.messages) {
      if (message.subtype !== "tool-result") continue;
      const { output } = message.toolResult;
      if ("value" in output && typeof output.value === "string" && output.value.length > KEPT_MAX_CHARACTERS) output.value = output.value.slice(0, KEPT_MAX_CHARACTERS) + CUT;
    }
  }

  /** Stopped by a peer. 1.x shows an interrupted turn as an ended one, so `end_turn` stays the message's stop reason. */
  interrupt(at: number): Told[] {
    if (this.ended) return [];
    const spoken = this.#close();
    const lost = this.#loseCalls(at);
    return [
      tell("message_stop", { stopReason: "end_turn" }, at),
      ...spoken,
      ...lost,
      tell("conversation_end", { reason: "interrupted" }, at),
      this.#end("interrupted", "interrupted", at),
    ];
  }

  /** Ends a failed turn and keeps its text. 1.x user interfaces wait for the three error events. */
  fail(code: string, text: string, recoverable: boolean, at: number): Told[] {
    if (this.ended) return [];
    const spoken = this.#close();
    const lost = this.#loseCalls(at);
    const message = { id: this.#takeId(), role: "error", subtype: "error", content: text, errorCode: code, timestamp: at, turnId: this.turnId } as ErrorMessage;
    this.messages.push(message);
    return [
      ...spoken,
      ...lost,
      tell("error_received", { message: text, errorCode: code }, at),
      tell("error_message", message, at),
      tell("error_occurred", { code, message: text, recoverable }, at),
      this.#end("failed", "error", at),
    ];
  }

  #takeId(): string {
    this.produced += 1;
    return `msg_${this.turnId.slice("turn_".length)}_${this.produced}`;
  }

  #start(model: string, usage: Usage | undefined, at: number): Told[] {
    this.#messageId = this.#takeId();
    this.#startedAt = at;
    this.model = model;
    this.#text = "";
    this.#thinking = [];
    this.#openThinking = this.#openCall = undefined;
    this.pending = [];
    this.#responding = this.paused = false;
    this.#callUsage = NO_USAGE;
    this.#begunUsage = usage ?? NO_USAGE;
    this.#isCounted = false;
    return [tell("message_start", { messageId: this.#messageId, model }, at), tell("conversation_start", { messageId: this.#messageId }, at)];
  }

  #grow(text: string, at: number): Told[] {
    this.#text += text;
    const delta = tell("text_delta", { text }, at);
    if (this.#responding) return [delta];
    this.#responding = true;
    return [delta, tell("conversation_responding", {}, at)];
  }

  #startCall(callId: string, name: string, byProvider: boolean, at: number): Told[] {
    // Some providers count their calls anew in every message; results are told apart by the id within a turn.
    const id = this.#callIds.has(callId) ? `${callId}_${this.produced}` : callId;
    this.#callIds.add(id);
    this.#openCall = { id, name, json: "", byProvider };
    return [
      tell("tool_use_start", { toolCallId: id, toolName: name }, at),
      tell("tool_planned", { toolId: id, toolName: name }, at),
      tell("tool_executing", { toolId: id, toolName: name, input: {} }, at),
    ];
  }

  #stopCall(at: number): Told[] {
    const open = this.#openCall;
    const parentId = this.#messageId;
    if (open === undefined || parentId === undefined) return [];
    this.#openCall = undefined;
    const { input, problem } = parseInput(open.json);
    const call: Call = { id: open.id, name: open.name, input, byProvider: open.byProvider, ...(problem ? { problem } : {}) };
    (open.byProvider ? this.atProvider : this.pending).push(call);
    const message = {
      id: this.#takeId(),
      role: "assistant",
      subtype: "tool-call",
      toolCall: { type: "tool-call", id: call.id, name: call.name, input, ...(open.byProvider ? { byProvider: true } : {}) },
      timestamp: at,
      turnId: this.turnId,
      parentId,
    } as ToolCallMessage;
    this.messages.push(message);
    return [tell("tool_use_stop", { toolCallId: call.id, toolName: call.name, input }, at), tell("tool_call_message", message, at)];
  }

  #finishAtProvider(callId: string, outcome: Outcome, at: number): Told[] {
    const call = this.atProvider.find((other) => other.id === callId);
    if (call === undefined) return [];
    this.atProvider = this.atProvider.filter((other) => other !== call);
    return this.finish(call, outcome, at);
  }

  #stop(reason: StopReason, at: number): Told[] {
    // Some providers say "stop" although they asked for tools; a call cut off by max_tokens must not run.
    const pending = reason === "tool_use" || reason === "end_turn" ? this.pending : [];
    const spoken = this.#close();
    if (pending.length > 0) {
      this.pending = pending;
      return [tell("message_stop", { stopReason: "tool_use" }, at), ...spoken];
    }
    if (reason === "pause_turn") {
      // To clients it is a tool that still runs.
      this.paused = true;
      return [tell("message_stop", { stopReason: "tool_use" }, at), ...spoken];
    }
    const stop = reason === "tool_use" ? "end_turn" : reason;
    const lost = this.#loseCalls(at);
    return [
      tell("message_stop", { stopReason: stop }, at),
      ...spoken,
      ...lost,
      tell("conversation_end", { reason: "completed" }, at),
      this.#end("completed", stop, at),
    ];
  }

  /** The assistant's message so far, if there is one to keep. */
  #close(): Told[] {
    const id = this.#messageId;
    this.#messageId = this.#openCall = undefined;
    const calls = this.pending.length + this.atProvider.length > 0;
    this.pending = [];
    if (id === undefined) return [];
    if (this.#openThinking !== undefined) this.#thinking.push({ type: "thinking", reasoning: this.#openThinking });
    this.usage = addUsage(this.usage, this.#callUsage);
    this.calls.push({ messageId: id, at: this.#startedAt, usage: this.#isCounted ? this.#callUsage : this.#estimated() });
    const hasText = this.#text.trim() !== "";
    const content = [...this.#thinking, ...(hasText ? [{ type: "text" as const, text: this.#text }] : [])];
    if (content.length === 0 && !calls) return [];
    const message = { id, role: "assistant", subtype: "assistant", content, timestamp: this.#startedAt, turnId: this.turnId, usage: this.#callUsage } as AssistantMessage;
    this.messages.push(message);
    return hasText ? [tell("assistant_message", message, this.#startedAt)] : [];
  }

  /** The usage of a call that was cut off: what it read, as far as that was told, and what it has said. */
  #estimated(): Usage {
    const said = this.#text + this.#thinking.map((block) => block.reasoning).join("");
    const outputTokens = said === "" ? 0 : Math.floor(new TextEncoder().encode(said).byteLength / ESTIMATED_TOKEN_BYTES) + 1;
    return { ...this.#begunUsage, outputTokens, estimated: true };
  }

  #loseCalls(at: number): Told[] {
    const calls = [...this.atProvider];
    this.atProvider = [];
    return calls.flatMap((call) => this.finish(call, { result: LOST, isError: true }, at));
  }

  #end(outcome: "completed" | "interrupted" | "failed", stopReason: string, at: number): Told {
    this.ended = true;
    return tell(
      "turn_response",
      {
        turnId: this.turnId,
        messageId: this.userMessageId,
        outcome,
        stopReason: stopReason as "end_turn",
        duration: Math.max(0, at - this.acceptedAt),
        usage: this.usage,
        timestamp: at,
        ...(this.model === undefined ? {} : { model: this.model }),
      },
      at,
    );
  }
}

export function addUsage(one: Usage, other: Usage): Usage {
  const cacheReadTokens = (one.cacheReadTokens ?? 0) + (other.cacheReadTokens ?? 0);
  const cacheWriteTokens = (one.cacheWriteTokens ?? 0) + (other.cacheWriteTokens ?? 0);
  return {
    inputTokens: one.inputTokens + other.inputTokens,
    outputTokens: one.outputTokens + other.outputTokens,
    ...(cacheReadTokens > 0 ? { cacheReadTokens } : {}),
    ...(cacheWriteTokens > 0 ? { cacheWriteTokens } : {}),
  };
}

function parseInput(json: string): { input: Record<string, unknown>; problem?: string } {
  if (json.trim() === "") return { input: {} };
  try {
    const input: unknown = JSON.parse(json);
    if (typeof input === "object" && input !== null && !Array.isArray(input)) return { input: input as Record<string, unknown> };
    return { input: {}, problem: "The input of the call is not a JSON object" };
  } catch {
    return { input: {}, problem: `The input of the call is not valid JSON: ${json.slice(0, 200)}` };
  }
}
