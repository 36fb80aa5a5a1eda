/** Window — as much of a history as a model can read: the oldest exchanges are dropped first, whole. */

import type { Provider } from "./env.ts";
import type { Message } from "./turn.ts";

/** By how the names of models begin, the smallest window of each family. */
const WINDOWS: Record<Provider["kind"], readonly (readonly [string, number])[]> = {
  anthropic: [["claude-haiku-4", 200_000], ["claude-sonnet-4-2", 200_000], ["claude-opus-4-2", 200_000], ["claude-opus-4-5", 200_000], ["claude-sonnet-4-5", 200_000], ["claude-3", 200_000], ["", 1_000_000]],
  openai: [["gpt-4.1", 1_000_000], ["gpt-4o", 128_000], ["gpt-", 400_000], ["o1", 128_000], ["o3", 200_000], ["o4", 200_000], ["deepseek", 128_000], ["", 32_000]],
};
const TOKEN_BYTES = 3;
/** Around a message, and of a picture. */
const MESSAGE_TOKENS = 20;
const PICTURE_TOKENS = 5_000;

/** Tokens that a model reads and writes together. */
export function windowOf({ kind, contextTokens }: Provider, model: string): number {
  return contextTokens ?? WINDOWS[kind].find(([begin]) => model.startsWith(begin))?.[1] ?? 0;
}

/** On the safe side for English and for Chinese. */
export const tokensOf = (text: string): number => Math.floor(new TextEncoder().encode(text).byteLength / TOKEN_BYTES) + 1;

/** The newest exchanges of a history that so many tokens hold. */
export function newest(history: readonly Message[], tokens: number): Message[] {
  let left = tokens;
  let from = history.length;
  while (from > 0) {
    const { turnId } = history[from - 1] as Message;
    let first = from - 1;
    while (first > 0 && history[first - 1]?.turnId === turnId) first -= 1;
    left -= weigh(history.slice(first, from));
    if (left < 0) break;
    from = first;
  }
  return history.slice(from);
}

/** About how many tokens messages have. */
export const weigh = (messages: readonly Message[]): number => messages.reduce((sum, message) => sum + MESSAGE_TOKENS + weightOf(message), 0);

function weightOf(message: Message): number {
  if (message.subtype === "tool-call") return tokensOf(JSON.stringify(message.toolCall.input));
  if (message.subtype === "tool-result") return tokensOf(JSON.stringify(message.toolResult.output));
  if (typeof message.content === "string") return tokensOf(message.content);
  return message.content.reduce((sum, part) => sum + (part.type === "image" ? PICTURE_TOKENS : tokensOf(part.type === "text" ? part.text : part.type === "thinking" ? part.reasoning : part.data)), 0);
}
