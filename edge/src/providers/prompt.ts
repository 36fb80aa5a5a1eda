/** Prompt — a history as the entries that every provider can be told, and what a provider is asked for. */

import type { UserMessage } from "../../../clients/typescript/src/types.ts";
import type { Message, Output } from "../turn.ts";

export interface ToolSpec {
  name: string;
  description: string;
  inputSchema: Record<string, unknown>;
}

export interface Prompt {
  model: string;
  system?: string;
  entries: Entry[];
  maxTokens: number;
  temperature?: number;
  thinking?: number;
  tools: ToolSpec[];
  /** Tools that the provider runs, as it writes them. */
  providerTools: Record<string, unknown>[];
}

export interface EntryCall {
  id: string;
  name: string;
  input: Record<string, unknown>;
}

export interface EntryResult {
  id: string;
  text: string;
  isError: boolean;
}

export type Entry =
  | { role: "user"; content: UserMessage["content"] }
  | { role: "assistant"; text: string; thinking: { reasoning: string; signature?: string }[]; calls: EntryCall[] }
  | { role: "results"; results: EntryResult[] };

/** A provider's answer, piece by piece. */
export type Stream = AsyncIterable<Output>;

const NO_RESULT = "No result: the turn ended before the call had one.";

/** The entries of a history: a message of the model with all its calls, then a result for each of them. */
export function entriesOf(messages: readonly Message[]): Entry[] {
  const entries: Entry[] = [];
  let open: { parent: string; entry: Extract<Entry, { role: "assistant" }>; results: Map<string, EntryResult> } | undefined;
  const close = (): void => {
    if (open === undefined) return;
    entries.push(open.entry);
    const { calls } = open.entry;
    const { results } = open;
    if (calls.length > 0) {
      entries.push({ role: "results", results: calls.map((call) => results.get(call.id) ?? { id: call.id, text: NO_RESULT, isError: true }) });
    }
    open = undefined;
  };
  const of = (parent: string) => {
    if (open?.parent !== parent) {
      close();
      open = { parent, entry: { role: "assistant", text: "", thinking: [], calls: [] }, results: new Map() };
    }
    return open as NonNullable<typeof open>;
  };
  for (const message of messages) {
    if (message.subtype === "user") {
      close();
      entries.push({ role: "user", content: message.content });
    } else if (message.subtype === "assistant") {
      const { entry } = of(message.id);
      for (const part of message.content) {
        if (part.type === "text") entry.text += part.text;
        else entry.thinking.push({ reasoning: part.reasoning, ...(part.signature ? { signature: part.signature } : {}) });
      }
    } else if (message.subtype === "tool-call" && !message.toolCall.byProvider) {
      const { id, name, input } = message.toolCall;
      of(message.parentId).entry.calls.push({ id, name, input });
    } else if (message.subtype === "tool-result" && open !== undefined) {
      const { output } = message.toolResult;
      const value = "value" in output ? output.value : "";
      open.results.set(message.toolCallId, {
        id: message.toolCallId,
        text: typeof value === "string" ? value : JSON.stringify(value),
        isError: output.type === "error-text" || output.type === "error-json",
      });
    }
  }
  close();
  return entries.filter((entry) => entry.role !== "assistant" || entry.text !== "" || entry.calls.length > 0);
}
